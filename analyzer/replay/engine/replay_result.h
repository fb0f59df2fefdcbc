// SPDX-License-Identifier: Apache-2.0
// The result of one policy on one heap.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <memory>

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/prepared.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

namespace plan {
struct Plan;
}

/// How much memory the device has for the policy.
struct DeviceModel {
  enum class Kind : std::uint8_t { unlimited, capacity };
  Kind kind = Kind::unlimited;
  Bytes capacity{};   // of all segments together
  bool told = false;  // a limit that the program itself enforces, e.g. a memory fraction: a policy that maps
                      // memory in runs may exceed it by part of a run, as the real allocator may
};

/// A metric over a stretch of the trace.
struct SeriesPoint {
  std::uint64_t first_event = 0;
  Bytes live_max, allocated_max, reserved_max;
  double external_fragmentation_max = 0;
};

struct DriverCalls {
  std::uint64_t malloc = 0, free = 0, map = 0, unmap = 0, sync = 0;
  std::uint64_t malloc_async = 0, free_async = 0;          // of a pool of the driver
  std::uint64_t malloc_shared = 0, free_shared = 0;        // the malloc and free calls that moved no memory
  Bytes malloc_bytes, free_bytes, map_bytes, unmap_bytes;  // granted and returned by the device

  DriverCalls& operator+=(const DriverCalls& other);
  friend bool operator==(const DriverCalls&, const DriverCalls&) = default;
};

/// The first request that a policy could not serve.
struct ReplayFailure {
  std::uint64_t event = 0;
  Bytes requested, live, reserved, capacity;
  Bytes free, largest_free;  // inside the policy's segments
};

/// Free memory large enough for a request, but belonging to another stream or pool.
struct StrandedMemory {
  Bytes bytes;  // highest at any time
  std::uint64_t event = 0;
};

/// How usable the free memory inside a policy's segments was. Definitions: docs/metrics.md.
struct FreeMemory {
  static constexpr std::array<Bytes, 4> sizes{2_MiB, 20_MiB, 64_MiB, 256_MiB};
  std::array<double, sizes.size()> unusable{};  // for each of `sizes`, the maximum
  StrandedMemory stranded_stream, stranded_pool;
};

/// What one policy did with one heap. Definitions: docs/metrics.md.
struct ReplayResult {
  static constexpr std::size_t most_failed_events = 4096;

  PolicySpec policy;  // with every parameter, defaults included
  HeapId heap = HeapId::none;
  std::int32_t device = 0;
  DeviceModel device_model;
  std::uint64_t events = 0;
  Bytes peak_live, peak_allocated, peak_reserved, end_reserved;
  std::uint64_t peak_live_event = 0, peak_allocated_event = 0, peak_reserved_event = 0;  // index in the trace
  double fragmentation_at_peak = 0;  // 1 - allocated/reserved at the reserved peak: of its instants, with most live
  double external_fragmentation_max = 0;    // max over time of (free - largest free)/free
  double internal_waste = 0;                // 1 - live/allocated at that instant
  std::optional<FreeMemory> free_memory;    // if requested, for policies that report placement
  std::optional<double> address_stability;  // likewise, if the trace marks its steps
  std::uint64_t failed_allocations = 0;
  std::optional<ReplayFailure> first_failure;
  std::vector<std::uint32_t> failed_events;  // index in the trace of the first most_failed_events
  DriverCalls driver_calls;
  std::optional<Bytes> min_capacity;  // least capacity without a failure, if requested
  double seconds = 0;                 // of the replay itself, on one core
  std::optional<Error> defect;        // a user-defined policy broke its contract: the other metrics are meaningless
  std::vector<SeriesPoint> series;    // at most ReplayOptions::series_points
  std::shared_ptr<const plan::Plan>
      plan;                 // of an offline planner, unless the device has less than the program alone needs
  bool resumed = false;     // began with the memory that the heap held when its recording began
  bool gave_up = false;     // stopped because too much was reserved: all metrics are up to then
  bool unfinished = false;  // likewise, at the deadline

  double overhead() const;  // peak reserved / peak live; 0 if nothing was live
};

// How one policy is replayed on one heap.

class Backing;
struct Extent;

/// Observes a run row by row, which makes it slower.
class RowWatcher {
 public:
  RowWatcher() = default;
  RowWatcher(const RowWatcher&) = delete;
  RowWatcher& operator=(const RowWatcher&) = delete;
  virtual ~RowWatcher() = default;

  /// Row `row` is done; `extent` is null unless it is a request that got memory. Returns false to stop the run.
  virtual bool done(std::size_t row, const Extent* extent) = 0;
};

/// The rows of heaps that are not all in memory. Threads may share one.
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  virtual std::size_t row_count(HeapId heap) const = 0;
  /// Calls `take` with the columns of one run of rows after another, until it returns false.
  virtual void for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const = 0;
};

struct RunOptions {
  DeviceModel device;
  std::size_t series_points = 0;
  /// Stop at the first failure. A request that failed in the recording may fail again.
  bool stop_at_failure = false;
  /// Stop once more than this is reserved. The policy is not told: unlike a capacity, this changes no decision.
  Bytes give_up_above{std::numeric_limits<std::uint64_t>::max()};
  /// Stop then, unless the policy is a mere sum, which takes no time.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  /// Before a request fails, the program calls empty_cache and retries.
  bool empty_cache_on_failure = false;
  /// Also compute ReplayResult::free_memory and address_stability.
  bool placement_metrics = false;
  /// Where the rows come from if the heap's own columns are empty.
  const RowSource* rows = nullptr;
  Backing* backing = nullptr;     // real memory behind what the policy reserves
  RowWatcher* watcher = nullptr;  // placing policies only
};

}  // namespace memreel
