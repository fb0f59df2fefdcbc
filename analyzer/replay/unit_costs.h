// The time that a policy's driver calls take, from measured costs per kind of call.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/replay/replay.h"
#include "formats/model/units.h"

namespace memreel {

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
