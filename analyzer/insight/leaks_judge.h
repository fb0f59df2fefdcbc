// Whether what a call site keeps is a leak. The rules and the reason of each are in docs/leaks.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/insight/leaks_population.h"

namespace memreel {

enum class LeakVerdict : std::uint8_t {
  leak,       // kept in interval after interval until the end, and never freed
  suspected,  // the same with less to go by; or one that is replaced by ever larger ones (leaks_swelling.h)
  resident,   // kept from the start, or one at a time: weights, optimizer state, buffers
  cache,      // kept for a while; what it holds no longer grows
  warm_up,    // grew for a while and stopped
  sawtooth,   // freed in bursts, as garbage is collected
  unknown_before_attach,
  unattributed,
};

/// What was measured of the allocations that a verdict is about.
struct Growth {
  std::uint32_t intervals = 0;        // in which some were made that are still there
  std::uint32_t first = 0, last = 0;  // the first and the last of those
  double slope = 0;  // bytes per interval, least squares over what had been kept by each of those intervals
  double r2 = 0;     // of that line; 0 when there is nothing to fit
  std::uint32_t longest_life = 0;  // intervals that any allocation from there lived that was freed before the end
};

/// Some of a population that deserve the same verdict. Those accused come first, if any.
struct Judged {
  LeakVerdict verdict = LeakVerdict::resident;
  Growth growth;
  std::vector<Held> kept;  // live at the end, by birth
};

/// Every survivor of the population is in exactly one of the results.
std::vector<Judged> judge(const Population& population, const Intervals& intervals);

}  // namespace memreel
