// SPDX-License-Identifier: Apache-2.0
// Where ONNX Runtime's CPU arena gets its memory when this is preloaded: from the C library while nothing is recorded,
// from a simulated parent otherwise. Releases differ in what they call: posix_memalign(), or aligned new, which calls
// aligned_alloc(). The arena never touches its memory, so an address is all it needs, and terabytes cost nothing.
//
// Parent calls are logged for ort_arena.py to read. Regions grow in both directions from the middle of an unused
// address range, so address order is not age order.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct call {
  uint64_t size;  // 0: freed
  uint64_t address;
};

enum { most_calls = 4096, most_regions = 65536 };
static const uint64_t middle = UINT64_C(1) << 50, half = UINT64_C(1) << 49, apart = UINT64_C(2) << 20;

static struct call calls[most_calls];
static struct call regions[most_regions];
static unsigned call_count, region_count;
static uint64_t above, below, taken, capacity;
static int watching;

/// From now on, memory comes from a parent with `bytes`, or no longer does.
void ort_upstream_watch(int yes, uint64_t bytes) {
  watching = yes;
  capacity = bytes;
}

/// Copies the calls since the last time to `out`, which has room for 4,096. Returns their number.
unsigned ort_upstream_calls(struct call* out) {
  const unsigned count = call_count;
  for (unsigned i = 0; i < count; ++i) out[i] = calls[i];
  call_count = 0;
  return count;
}

static void note(uint64_t size, uint64_t address) {
  if (call_count < most_calls) calls[call_count++] = (struct call){size, address};
}

/// The address of `size` bytes; null: out of memory.
static void* take(uint64_t size) {
  if (size > capacity - taken || region_count == most_regions) {
    note(size, 0);
    return NULL;
  }
  const uint64_t room = (size + apart - 1) / apart * apart + apart;
  uint64_t address = middle + above;
  if (region_count % 3 == 1) {
    below += room;
    address = middle - below;
  } else {
    above += room;
  }
  taken += size;
  regions[region_count++] = (struct call){size, address};
  note(size, address);
  return (void*)(uintptr_t)address;
}

static void give_back(uint64_t address) {
  for (unsigned i = region_count; i-- > 0;)
    if (regions[i].address == address) {
      taken -= regions[i].size;
      regions[i].address = 0;
    }
  note(0, address);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  static int (*real)(void**, size_t, size_t);
  if (watching) return (*out = take(size)) ? 0 : ENOMEM;
  if (!real) real = (int (*)(void**, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  return real(out, alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  static void* (*real)(size_t, size_t);
  if (watching) return take(size);
  if (!real) real = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  return real(alignment, size);
}

void free(void* pointer) {
  static void (*real)(void*);
  const uint64_t address = (uint64_t)(uintptr_t)pointer;
  if (address > middle - half && address < middle + half) {
    give_back(address);
    return;
  }
  if (!real) real = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  real(pointer);
}
