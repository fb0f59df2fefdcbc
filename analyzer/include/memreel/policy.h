// SPDX-License-Identifier: Apache-2.0
/* A custom allocator policy, which memreel replays a program against.
 *
 * Put the functions below into a shared library, in C99 or newer, C++, or any language that can export them:
 *
 *     cc -std=c99 -O2 -shared -fPIC -I analyzer/include mine.c -o mine.so
 *     memreel replay run.reel --policy './mine.so{limit=64}'
 *
 * memreel reports each operation of the program in one call, and the policy does what its allocator would have done: it
 * reserves memory from a simulated device, places allocations in it, and releases it. The memory exists as addresses
 * only; never read or write it. All sizes are in bytes.
 *
 * Allocations are identified by slots: small numbers below `slot_count`, reused once an allocation is freed. A policy
 * can keep its per-allocation state in an array.
 *
 * Threads: memreel creates one instance per replay and runs replays concurrently. The functions of one instance,
 * including create() and destroy(), are called by one thread at a time; different instances are called concurrently, so
 * they must not share mutable state. Functions must not throw.
 *
 * memreel checks every answer: an allocation must be at least as large as requested, lie inside one reservation, and
 * not overlap others; only reserved memory may be released, and only when no allocation lives in it; free memory must
 * not exceed reserved memory. The first wrong answer ends the replay with a message that describes it.
 *
 * Versions: functions may be added at the end of memreel_policy; libraries built earlier keep working. Any other change
 * raises MEMREEL_POLICY_VERSION, and older libraries are refused.
 */
/* This is C. NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming) */
#ifndef MEMREEL_POLICY_H
#define MEMREEL_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MEMREEL_POLICY_VERSION 1

/* One parameter from the braces of --policy './mine.so{key=value}'. Both strings are NUL-terminated. */
typedef struct memreel_parameter {
  const char* key;
  const char* value;
} memreel_parameter;

/* The pool and stream of a request. Equal numbers mean the same pool or stream; 0 is the default one. Most allocators
 * reuse memory immediately only within one pool and on one stream. */
typedef struct memreel_pool_stream {
  uint32_t pool;
  uint32_t stream;
} memreel_pool_stream;

/* Opaque. */
typedef struct memreel_device memreel_device;

/* What memreel provides to a policy. Valid until destroy() returns. */
typedef struct memreel_environment {
  memreel_device* device; /* pass it to reserve() and release() */

  /* Reserves `size` bytes (more than 0) and stores their start address, a multiple of 512 bytes. Returns 0 if the
   * device does not have that much left. */
  int (*reserve)(memreel_device* device, uint64_t size, uint64_t* address);

  /* Releases a whole reservation made by reserve(). */
  void (*release)(memreel_device* device, uint64_t address);

  uint64_t capacity;   /* the most that can be reserved in total; 0: no limit */
  uint32_t slot_count; /* every slot is below this */
  uint32_t pool_stream_count;
  const memreel_pool_stream* pool_streams; /* indexed by the `pool_stream` of allocate() */
} memreel_environment;

typedef struct memreel_extent {
  uint64_t address;
  uint64_t size;
} memreel_extent;

/* Reserved memory that could be handed out: neither allocated nor still in use by the device. */
typedef struct memreel_statistics {
  uint64_t free;
  uint64_t largest_free; /* the largest request it could serve, on any stream; 0 if nothing is free */
} memreel_statistics;

typedef struct memreel_policy {
  uint32_t version;        /* MEMREEL_POLICY_VERSION */
  uint32_t struct_size;    /* sizeof(memreel_policy) */
  const char* description; /* one line */
  uint64_t unit;           /* reservations are multiples of this many bytes; 0: unknown */

  /* Required functions. */

  /* Creates an instance, which is passed to all other functions. On failure, e.g. because of a bad parameter, returns
   * NULL and writes the reason to `error`, at most `error_size` bytes including the terminating NUL. */
  void* (*create)(const memreel_parameter* parameters, size_t parameter_count, const memreel_environment* environment,
                  char* error, size_t error_size);
  void (*destroy)(void* policy);

  /* The program requests `size` bytes, possibly 0. Returns 1, or 0 if out of memory; the slot then stays unused. */
  int (*allocate)(void* policy, uint32_t slot, uint64_t size, uint32_t pool_stream);

  /* The device is done with an allocation that the program freed: its memory can be reused. */
  void (*free_completed)(void* policy, uint32_t slot);

  /* The extent of an allocation, including rounding: at least one byte. Called once, after allocate(). */
  memreel_extent (*extent_of)(const void* policy, uint32_t slot);

  /* Called after every operation. */
  memreel_statistics (*statistics)(const void* policy);

  /* Optional functions; may be NULL. */

  /* The program freed an allocation; free_completed() follows, usually immediately. */
  void (*free_requested)(void* policy, uint32_t slot);

  /* The program asked for cached memory to be released. */
  void (*empty_cache)(void* policy);

  /* The host waited for all streams; the host waited for the stream of `pool_stream`; the stream of `pool_stream` was
   * made to wait for the work submitted so far to the stream of `awaited`. */
  void (*device_synchronized)(void* policy);
  void (*stream_synchronized)(void* policy, uint32_t pool_stream);
  void (*stream_waits)(void* policy, uint32_t pool_stream, uint32_t awaited);
} memreel_policy;

/* The only symbol the library exports, also with -fvisibility=hidden. The struct it returns must not change. */
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
const memreel_policy*
memreel_policy_get(void);

#ifdef __cplusplus
}
#endif

#endif
/* NOLINTEND(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming) */
