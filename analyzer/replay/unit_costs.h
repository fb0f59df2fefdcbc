// What a policy's driver calls cost in time, by a measured price for each kind of call.
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
  free,           // cuMemFree that gives it back
  malloc_shared,  // cuMemAlloc that finds room in a page that is there
  free_shared,    // cuMemFree that leaves the page there
  malloc_async,   // cuMemAllocAsync from what the pool has
  free_async,     // cuMemFreeAsync
  map,            // cuMemCreate, cuMemMap and cuMemSetAccess; a pool's chunk
  unmap,          // cuMemUnmap and cuMemRelease
  sync,           // with nothing to wait for
};
inline constexpr std::size_t driver_call_kinds = 9;

/// As in JSON documents.
inline constexpr std::array<std::string_view, driver_call_kinds> driver_call_names{
    "malloc", "free", "malloc_shared", "free_shared", "malloc_async", "free_async", "map", "unmap", "sync"};

/// A call costs the fixed part, and the other for each MiB that it takes from the device or gives back.
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

  /// For when nobody measured the user's GPU: samples/unit-costs-h200.json. A call that waits for the device also costs
  /// whatever is queued there: that is the program's, and not in here.
  static UnitCosts of_h200();
};

/// How many, but for waits, which are part of the calls that cause them.
std::uint64_t count_of(const DriverCalls& calls);

}  // namespace memreel
