// SPDX-License-Identifier: Apache-2.0
// Replays the program's requests against allocator policies: what would each have reserved?
//
// Inputs come from the program (requests, frees, empty_cache), decisions from the policy (rounding, placement,
// reserving, releasing, failing). prepare() resolves a trace once; any number of policies then run on it in parallel.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>

#include "analyzer/analysis/history/device_memory.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/replay_result.h"
#include "analyzer/replay/prepare.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct ReplayOptions {
  std::optional<DeviceModel> device;  // default: unlimited, or the capacity implied by the recorded failures
  bool find_min_capacity = false;
  std::size_t series_points = 1024;
  bool placement_metrics = false;  // also compute free_memory and address_stability
  unsigned threads = 0;            // 0: one per core
  /// Runs end at it. The result of a run that did not come to its end has no policy name; a least capacity that was not
  /// found is unknown.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const RowSource* rows = nullptr;  // of heaps with empty columns, see streamed_trace.h
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;  // called by any thread, after each run
};

/// Every policy, in the order of the documentation.
std::span<const PolicyInfo> policies();

/// Runs each spec on each heap. Results are ordered by spec, then heap. Errors: an unknown policy or parameter (the
/// message lists the known ones), or a sub-allocating policy on a driver-level heap of a program that already pools.
Result<std::vector<ReplayResult>> replay(std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                                         const ReplayOptions& options = {});

/// What a device holds while its heaps are replayed together.
struct DeviceReplay {
  PolicySpec policy;  // with every parameter, defaults included
  std::int32_t device = 0;
  Bytes peak_reserved;               // of all heaps and what is beside them, at one instant
  std::uint64_t peak_event = 0;      // index in the trace
  Bytes beside_at_peak;              // that was not replayed, as recorded
  double fragmentation_at_peak = 0;  // of the heap that reserves most, at its own peak
  std::uint64_t failed_allocations = 0;
  std::optional<Bytes> min_capacity;  // of the device, if requested
  std::vector<ReplayResult> heaps;    // in the given order
};

/// What else the replayed heaps' devices hold, and which heaps have their memory from other replayed ones.
struct Surroundings {
  std::map<std::int32_t, std::vector<HeldFrom>> beside;
  std::vector<HeapId> inside;

  bool empty() const { return beside.empty() && inside.empty(); }
};

/// Of a complete trace, for these heaps.
Surroundings surroundings_of(const Trace& trace, std::span<const DeviceMemory> devices,
                             std::span<const Prepared> heaps);

/// The same by device: with a capacity, its heaps share it, with what is beside them at each instant. Results are
/// ordered by spec, then device. Heaps inside others take nothing from the device. A policy that decides with knowledge
/// of the whole trace gets what the peaks of all else leave.
Result<std::vector<DeviceReplay>> replay_devices(std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                                                 const ReplayOptions& options, const Surroundings& surroundings);

// The time that a policy's driver calls take, from measured costs per kind of call.

enum class DriverCall : std::uint8_t {
  malloc,         // cuMemAlloc that takes memory from the device
  free,           // cuMemFree that returns it
  malloc_shared,  // cuMemAlloc that finds room in an existing page
  free_shared,    // cuMemFree that leaves the page in place
  malloc_async,   // cuMemAllocAsync from the pool's memory
  free_async,     // cuMemFreeAsync
  map,            // cuMemCreate, cuMemMap and cuMemSetAccess; a pool's chunk
  unmap,          // cuMemUnmap and cuMemRelease
  sync,           // with nothing to wait for
};
inline constexpr std::size_t driver_call_kinds = 9;

/// As in JSON documents.
inline constexpr std::array<std::string_view, driver_call_kinds> driver_call_names{
    "malloc", "free", "malloc_shared", "free_shared", "malloc_async", "free_async", "map", "unmap", "sync"};

/// A call costs the fixed part, plus the other part per MiB that it takes from or returns to the device.
struct UnitCost {
  double fixed_seconds = 0;
  double seconds_per_mib = 0;

  friend bool operator==(const UnitCost&, const UnitCost&) = default;
};

struct UnitCosts {
  std::string measured_on;  // the GPU and its driver
  std::array<UnitCost, driver_call_kinds> of{};

  UnitCost& operator[](DriverCall call) { return of[static_cast<std::size_t>(call)]; }
  const UnitCost& operator[](DriverCall call) const { return of[static_cast<std::size_t>(call)]; }

  double seconds(const DriverCalls& calls) const;

  /// For users who have not measured their GPU: samples/unit-costs-h200.json. A call that waits for the device also
  /// costs whatever is queued there: that belongs to the program and is not included.
  static UnitCosts of_h200();
};

/// The number of calls, without waits, which are part of the calls that cause them.
std::uint64_t count_of(const DriverCalls& calls);

}  // namespace memreel
