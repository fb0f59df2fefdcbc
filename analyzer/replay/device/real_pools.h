// SPDX-License-Identifier: Apache-2.0
// CUDA's own allocators as policies: the driver makes every decision, on real memory.
//
// Measurements replace what a model would compute: `reserved` is what the device reports as given, `allocated` is what
// the driver counts as handed out, `free` is the difference if it could be handed out again.
#pragma once

#include <map>
#include <span>
#include <unordered_map>

#include "analyzer/replay/device/gpu.h"
#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/policies/cuda_async.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"

namespace memreel::gpu {

// Real memory for the segments of a policy that places its blocks itself: it makes its own decisions, but what it
// reserves and releases is really allocated and freed, at real cost and with real refusals.

/// How segments are made.
enum class SegmentsBy : std::uint8_t {
  malloc,  // cuMemAlloc
  map,     // an address range, and physical memory mapped into it
};

/// A range that grows at its end is always mapped: cuMemAlloc can't extend an allocation.
class RealMemory final : public Backing {
 public:
  static constexpr Bytes granularity = 2_MiB;  // of mappings, on every GPU that memreel was tested on

  RealMemory(Gpu& gpu, SegmentsBy how) : gpu_(gpu), how_(how), free_at_start_(gpu.free_memory()) {}
  ~RealMemory() override;

  bool reserve(Address address, Bytes size) override;
  void release(Address address, Bytes size) override;
  bool extend(Bytes size) override;
  void shrink(Bytes size) override;

  /// The highest use at any time, measured by how far the device's free memory fell.
  Bytes highest_taken() const { return highest_taken_; }
  /// Something was requested that can't be mapped: not whole pages.
  bool misaligned() const { return misaligned_; }

 private:
  struct Mapping {
    DevicePointer address = 0;
    Bytes size;
  };

  void give_back(DevicePointer pointer, Bytes size);
  void measure();

  Gpu& gpu_;
  SegmentsBy how_;
  Bytes free_at_start_, highest_taken_;
  bool misaligned_ = false;
  std::unordered_map<std::uint64_t, Mapping> segments_;  // by the policy's address
  DevicePointer range_ = 0;                              // addresses for the growing range
  std::vector<Mapping> range_mappings_;                  // in address order
};

/// Each request is a cuMemAlloc, each free a cuMemFree.
///
/// Reserved is how far the device's free memory fell, so it includes other programs on the same GPU. A request that
/// takes more than `capacity` is undone and counts as failed.
class RealMalloc {
 public:
  RealMalloc(const Prepared& heap, Gpu& gpu, std::optional<Bytes> capacity);
  RealMalloc(const RealMalloc&) = delete;
  RealMalloc& operator=(const RealMalloc&) = delete;
  ~RealMalloc();

  bool allocate(std::uint32_t slot, Bytes size, std::uint32_t pool_stream);
  void free_requested(std::uint32_t slot, Bytes size);
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}
  void empty_cache() {}

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return {}; }  // the driver does not report it
  const DriverCalls& driver_calls() const { return calls_; }
  DevicePointer pointer_of(std::uint32_t slot) const { return pointers_[slot]; }

 private:
  void measure();

  Gpu& gpu_;
  Bytes free_at_start_;
  std::optional<Bytes> capacity_;
  HeapUse use_;
  DriverCalls calls_;
  std::vector<DevicePointer> pointers_;  // by slot; 0: none
};

/// Each request is a cuMemAllocAsync, each free a cuMemFreeAsync, on a real stream per stream of the heap, in a pool
/// created for the replay. Waits and orderings are executed for real. empty_cache waits for the device and trims the
/// pool.
class RealPool {
 public:
  RealPool(const Prepared& heap, Gpu& gpu, const CudaAsyncSettings& settings, std::optional<Bytes> capacity);
  RealPool(const RealPool&) = delete;
  RealPool& operator=(const RealPool&) = delete;
  ~RealPool();

  bool allocate(std::uint32_t slot, Bytes size, std::uint32_t pool_stream);
  void free_requested(std::uint32_t slot, Bytes size);
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}
  void empty_cache();
  void device_synchronized();
  void stream_synchronized(std::uint32_t pool_stream);
  void stream_waits(std::uint32_t awaited, std::uint32_t waiting);

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return {}; }  // the driver does not report it
  const DriverCalls& driver_calls() const { return calls_; }
  DevicePointer pointer_of(std::uint32_t slot) const { return blocks_[slot].pointer; }
  /// The highest size the pool itself reports.
  Bytes reserved_high() const { return gpu_.pool_bytes(pool_, PoolAttribute::reserved_high); }

 private:
  struct RealBlock {
    DevicePointer pointer = 0;
    Stream stream = nullptr;
    Bytes size;
  };

  void measure();

  Gpu& gpu_;
  HeapUse use_;
  DriverCalls calls_;
  std::map<StreamId, Stream> streams_;
  std::vector<Stream> stream_of_pool_stream_;
  std::vector<RealBlock> blocks_;  // by slot
  Pool pool_;
};

static_assert(Policy<RealMalloc>);
static_assert(SynchronizingPolicy<RealPool>);

// Replays a trace on a real GPU.

struct OnDeviceOptions {
  SegmentsBy segments_by = SegmentsBy::malloc;
  std::optional<DeviceModel> device;  // as in ReplayOptions
  std::size_t series_points = 0;
};

struct OnDeviceResult {
  ReplayResult replay;  // the replay's metrics, from the driver's answers
  Bytes device_peak;    // the highest use reported by the device itself
  Tallies calls;        // every driver call made for it
};

/// Runs each spec on each heap, sequentially, on one GPU. Results are ordered by spec, then heap.
///
/// cuda.malloc and cuda.async are the driver's own: each request is a call, and every decision is the driver's. Any
/// other policy places its blocks itself, in real segments.
/// Errors: those of replay(); a bound, which reserves nothing; a call that failed for a reason other than lack of
/// memory.
Result<std::vector<OnDeviceResult>> replay_on_device(Gpu& gpu, std::span<const Prepared> heaps,
                                                     std::span<const PolicySpec> specs,
                                                     const OnDeviceOptions& options = {});

// Measures the cost of driver calls on a GPU.

/// Takes at most a second and at most 512 MiB of the GPU. Costs that could not be measured are 0; gpu.error() says why.
UnitCosts measure_unit_costs(Gpu& gpu);

}  // namespace memreel::gpu
