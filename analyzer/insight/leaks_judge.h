// Whether what a call site keeps is a leak. docs/leaks.md has the rules and their reasons.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/insight/leaks_population.h"

namespace memreel {

enum class LeakVerdict : std::uint8_t {
  leak,       // kept in interval after interval until the end, and never freed
  suspected,  // the same with weaker evidence; or repeatedly replaced by larger ones (leaks_swelling.h)
  resident,   // kept from the start, or one at a time: weights, optimizer state, buffers
  cache,      // kept for a while; its contents no longer grow
  warm_up,    // grew for a while and stopped
  sawtooth,   // freed in bursts, as by garbage collection
  unknown_before_attach,
  unattributed,
};

/// Measurements of the allocations under a verdict.
struct Growth {
  std::uint32_t intervals = 0;        // in which some were allocated that still live
  std::uint32_t first = 0, last = 0;  // the first and the last of those
  double slope = 0;                // bytes per interval: least-squares fit of the bytes kept by each of those intervals
  double r2 = 0;                   // of that fit; 0 if there is nothing to fit
  std::uint32_t longest_life = 0;  // in intervals, of any allocation from there that was freed before the end
};

/// The part of a population under one verdict. Accused parts come first, if any.
struct Judged {
  LeakVerdict verdict = LeakVerdict::resident;
  Growth growth;
  std::vector<Held> kept;  // live at the end, by birth
};

/// Every survivor of the population is in exactly one of the results.
std::vector<Judged> judge(const Population& population, const Intervals& intervals);

}  // namespace memreel
