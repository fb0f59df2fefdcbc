// Plans for a program whose every request is known beforehand: where would everything go?
//
// Finding the least peak is NP-complete. It is never below LOAD, the most that is alive at one time, and comes close to
// it when the largest buffer, hmax, is small against LOAD: there is always a placement within
// LOAD + O((hmax/LOAD)^(1/7)) LOAD (Buchsbaum, Karloff, Kenyon, Reingold and Thorup, "OPT versus LOAD in dynamic
// storage allocation", SICOMP 2004).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

struct Options {
  Bytes align = 512_B;  // of offsets; a power of two
  /// Steps that the search of plan_best may take, times the number of buffers, which is what a step costs. The default
  /// is some seconds.
  std::uint64_t search_effort = 80'000'000;
};

struct Plan {
  std::vector<Bytes> offsets;  // of each buffer
  Bytes peak;                  // highest end of a buffer
  Bytes load;                  // after rounding up to `align`
  Bytes largest;               // hmax
  Bytes bound;                 // no plan has a lower peak: load, or more where a search has proven it
  std::string_view method;     // which of the portfolio it was: "size"

  double over_load() const;      // peak / load
  double largest_share() const;  // hmax / load: the smaller, the closer to LOAD some plan is
};

/// Largest first, each into the smallest gap that fits.
Plan plan_by_size(std::span<const Buffer> buffers, const Options& options = {});

/// The lowest peak of a portfolio: several orders, largest first and others, the online fits forwards and backwards in
/// time, then a search for what is still above `bound`, when the buffers are few. Stops as soon as a peak equals LOAD.
/// Deterministic: limited by steps, never by a clock.
Plan plan_best(std::span<const Buffer> buffers, const Options& options = {});

}  // namespace memreel::plan
