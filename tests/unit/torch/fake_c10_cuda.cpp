// SPDX-License-Identifier: Apache-2.0
// A stand-in for libc10_cuda.so: calls the reports as PyTorch's allocator does, through the dynamic linker, and has the
// allocator's own trace where PyTorch 2.8 has it. Its caller decides addresses.
// NOLINTBEGIN: PyTorch's names
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct CUstream_st;

namespace c10 {

struct Device {
  std::int8_t type, index;
};
void reportMemoryUsageToProfiler(void* address, std::int64_t change, std::size_t allocated, std::size_t reserved,
                                 Device device);
void reportOutOfMemoryToProfiler(std::int64_t size, std::size_t allocated, std::size_t reserved, Device device);

namespace cuda {

class CUDAStream {
 public:
  explicit CUDAStream(Device device, std::int64_t id) : device_(device), id_(id) {}
  void* stream() const;

 private:
  [[maybe_unused]] Device device_;
  std::int64_t id_;
};
void* CUDAStream::stream() const {
  return reinterpret_cast<void*>(0x1000 + id_);  // NOLINT(performance-no-int-to-ptr): what a fake does
}

CUDAStream getCurrentCUDAStream(std::int8_t device) {
  return CUDAStream({1, device}, device == 1 ? 33 : 0);  // device 1 is on a stream of its own
}

namespace CUDACachingAllocator {

using Pool = std::pair<unsigned long long, unsigned long long>;

struct TraceEntry {
  enum Action { ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SNAPSHOT = 7, OOM = 8 };
  Action action_;
  std::int8_t device_;
  std::size_t addr_;
  std::shared_ptr<int> context_;
  CUstream_st* stream_{};
  std::size_t size_;
  Pool mempool_;
  std::int64_t time_ = 0;
  std::string compile_context_;
};
using Tracker = std::function<void(const TraceEntry&)>;

class CUDAAllocator {
 public:
  virtual ~CUDAAllocator() = default;
  virtual void enable(bool) {}
  virtual void attachAllocatorTraceTracker(Tracker tracker) = 0;
};

std::atomic<CUDAAllocator*> allocator;

namespace Native {

struct Block {
  std::size_t requested, size;
  CUstream_st* stream;
  Pool pool;
};

[[gnu::visibility("hidden")]] extern std::size_t segment_of_next, block_of_next;
std::size_t segment_of_next = 0, block_of_next = 0;
[[gnu::visibility("hidden")]] extern std::int64_t time_of_next;
std::int64_t time_of_next = 0;
Pool pool_of_next;

class [[gnu::visibility("hidden")]] DeviceCachingAllocator {
 public:
  [[gnu::noinline]] void record_trace(TraceEntry::Action action, std::size_t addr, std::size_t size,
                                      CUstream_st * stream, std::int8_t device, Pool mempool,
                                      std::shared_ptr<int> context) {
    const TraceEntry entry{action, device, addr, std::move(context), stream, size, mempool, time_of_next, {}};
    for (const Tracker& tracker : trackers) tracker(entry);
  }

  std::vector<Tracker> trackers;
  std::map<std::size_t, Block> blocks;
  std::size_t allocated = 0, reserved = 0;
};

DeviceCachingAllocator devices[2];

class [[gnu::visibility("hidden")]] NativeCachingAllocator
    : public CUDAAllocator{public : [[gnu::noinline]] void attachAllocatorTraceTracker(Tracker tracker)
                               override{for (DeviceCachingAllocator & device
                                             : devices) device.trackers.push_back(tracker);
}  // namespace Native

/// At `*address`; or at the beginning of a new segment if that is 0.
[[gnu::noinline]] void malloc(void** address, std::int8_t device, std::size_t size, CUstream_st* stream) {
  DeviceCachingAllocator& own = devices[device];
  if (*address == nullptr) {
    using Alloc = int(void**, std::size_t);
    static auto* const alloc = reinterpret_cast<Alloc*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2"));
    alloc(address, segment_of_next);
    own.reserved += segment_of_next;
    own.record_trace(TraceEntry::SEGMENT_ALLOC, reinterpret_cast<std::size_t>(*address), segment_of_next, stream,
                     device, pool_of_next, nullptr);
  }
  const auto at = reinterpret_cast<std::size_t>(*address);
  own.blocks[at] = {size, block_of_next, stream, pool_of_next};
  own.record_trace(TraceEntry::ALLOC, at, size, stream, device, pool_of_next, nullptr);
  own.allocated += block_of_next;
  reportMemoryUsageToProfiler(*address, static_cast<std::int64_t>(block_of_next), own.allocated, own.reserved,
                              {1, device});
}
};  // namespace CUDACachingAllocator

}  // namespace cuda
}  // namespace c10
}  // namespace cuda
}  // namespace c10

using namespace c10::cuda::CUDACachingAllocator;

extern "C" void fake_use_native_allocator() {
  static Native::NativeCachingAllocator native;
  allocator = &native;
}

extern "C" void* fake_malloc(void* address, std::size_t requested, std::size_t block, std::size_t segment,
                             std::size_t stream, std::uint64_t pool) {
  Native::segment_of_next = segment;
  Native::block_of_next = block;
  Native::pool_of_next = {0, pool};
  auto* const native = dynamic_cast<Native::NativeCachingAllocator*>(allocator.load());
  native->malloc(&address, 0, requested, reinterpret_cast<CUstream_st*>(stream));
  return address;
}

extern "C" void fake_time(std::int64_t time) { Native::time_of_next = time; }

extern "C" void fake_complete(void* address) {
  Native::DeviceCachingAllocator& own = Native::devices[0];
  const auto at = reinterpret_cast<std::size_t>(address);
  const Native::Block block = own.blocks[at];
  own.record_trace(TraceEntry::FREE_COMPLETED, at, block.requested, block.stream, 0, block.pool, nullptr);
}

/// `pending`: the device is not done with it yet.
extern "C" void fake_free(void* address, int pending) {
  Native::DeviceCachingAllocator& own = Native::devices[0];
  const auto at = reinterpret_cast<std::size_t>(address);
  const Native::Block block = own.blocks[at];
  own.record_trace(TraceEntry::FREE_REQUESTED, at, block.requested, block.stream, 0, block.pool, nullptr);
  if (pending == 0) fake_complete(address);
  own.allocated -= block.size;
  c10::reportMemoryUsageToProfiler(address, -static_cast<std::int64_t>(block.size), own.allocated, own.reserved,
                                   {1, 0});
}

extern "C" void fake_release(void* address, std::size_t segment) {
  using Free = int(void*);
  static auto* const free = reinterpret_cast<Free*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemFree_v2"));
  Native::DeviceCachingAllocator& own = Native::devices[0];
  const auto at = reinterpret_cast<std::size_t>(address);
  own.record_trace(TraceEntry::SEGMENT_FREE, at, segment, own.blocks[at].stream, 0, own.blocks[at].pool, nullptr);
  free(address);
  own.reserved -= segment;
}

/// A request that the driver refuses twice: the second time after the cache was released.
extern "C" void fake_fail(std::size_t requested, std::size_t device_free) {
  using Alloc = int(void**, std::size_t);
  static auto* const alloc = reinterpret_cast<Alloc*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2"));
  void* address = nullptr;
  for (int attempt = 0; attempt < 2; ++attempt) alloc(&address, requested);
  Native::DeviceCachingAllocator& own = Native::devices[0];
  own.record_trace(TraceEntry::OOM, device_free, requested, nullptr, 0, {}, nullptr);
  c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(requested), own.allocated, own.reserved, {1, 0});
}

/// The entry that PyTorch makes when it is asked what it holds.
extern "C" void fake_snapshot() {
  Native::devices[0].record_trace(TraceEntry::SNAPSHOT, 0, 0, nullptr, 0, {}, nullptr);
}

extern "C" void fake_report(void* address, std::int64_t change, std::size_t allocated, int type, int device) {
  c10::reportMemoryUsageToProfiler(address, change, allocated, 0,
                                   {static_cast<std::int8_t>(type), static_cast<std::int8_t>(device)});
}
extern "C" void fake_out_of_memory(std::int64_t size, int device) {
  c10::reportOutOfMemoryToProfiler(size, 0, 0, {1, static_cast<std::int8_t>(device)});
}
// NOLINTEND
