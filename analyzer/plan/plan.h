// Offline plans for a program whose requests are all known in advance.
//
// Finding the least peak is NP-complete. It is never below LOAD, the most that is alive at one time, and comes close to
// it if the largest buffer, hmax, is small compared to LOAD: there is always a placement within LOAD +
// O((hmax/LOAD)^(1/7)) LOAD (Buchsbaum, Karloff, Kenyon, Reingold and Thorup, "OPT versus LOAD in dynamic storage
// allocation", SICOMP 2004).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

struct Options {
  Bytes align = 512_B;  // of offsets; a power of two
  /// The step limit of plan_best's search, times the number of buffers, which is the cost of a step. The default takes
  /// some seconds.
  std::uint64_t search_effort = 80'000'000;
};

struct Plan {
  std::vector<Bytes> offsets;  // by buffer
  Bytes peak;                  // highest end of a buffer
  Bytes load;                  // LOAD, after rounding up to `align`
  Bytes largest;               // hmax
  Bytes bound;                 // no plan has a lower peak: load, or more if a search has proven it
  std::string_view method;     // the winning method of the portfolio: "size"

  double over_load() const;      // peak / load
  double largest_share() const;  // hmax / load: the smaller, the closer some plan is to LOAD
};

/// Largest first, each into the smallest gap that fits.
Plan plan_by_size(std::span<const Buffer> buffers, const Options& options = {});

/// The lowest peak of a portfolio: several orders, largest first and others, the online fits forwards and backwards in
/// time, then, for few buffers, a search for what is still above `bound`. Stops once a peak equals LOAD. Deterministic:
/// limited by steps, never by time.
Plan plan_best(std::span<const Buffer> buffers, const Options& options = {});

}  // namespace memreel::plan
