// What driver calls cost the host.
#pragma once

#include "analyzer/replay/replay.h"

namespace memreel {

/// Measured on an H200 with driver 580 and an idle device, for the 2 to 20 MiB that segments mostly have (calls of
/// 200 MiB take about twice as long). A call that waits for the device also costs whatever is queued there: that is
/// the program's, and not in here.
struct CallCosts {
  double malloc = 24e-6;
  double free = 27e-6;
  double map = 26e-6;  // create, map, set access
  double unmap = 15e-6;

  double seconds(const DriverCalls& calls) const {
    const auto times = [](std::uint64_t count, double cost) { return static_cast<double>(count) * cost; };
    return times(calls.malloc, malloc) + times(calls.free, free) + times(calls.map, map) + times(calls.unmap, unmap);
  }
};

/// All but waits, which are part of the calls that cause them.
inline std::uint64_t count_of(const DriverCalls& calls) { return calls.malloc + calls.free + calls.map + calls.unmap; }

}  // namespace memreel
