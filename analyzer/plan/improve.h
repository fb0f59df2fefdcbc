// SPDX-License-Identifier: Apache-2.0
// Local search for a lower peak, for problems of any size.
//
// The peak is lowered in small steps. What ends above the target is taken out; then, one by one, the heaviest of what
// is out is put where it fits, or else where what is in the way weighs least, and that is taken out instead. Each time
// a buffer is taken out it gets heavier, so that the search does not go in circles. Partial solutions as the state are
// Blöchliger and Zufferey's ("A graph coloring heuristic using partial solutions and a reactive tabu scheme", Computers
// & Operations Research 35, 2008), weights that grow with each failure Morris's ("The breakout method for escaping from
// local minima", AAAI 1993).
#pragma once

#include <cstdint>
#include <functional>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

struct ImproveLimits {
  std::uint64_t effort = 0;  // pairs of buffers alive at the same time to look at: some ten nanoseconds each
  Bytes enough;              // ends at a peak of at most this; LOAD is what it lowers the peak towards
  unsigned threads = 1;      // make no difference to the result
  std::function<bool()> stop = [] { return false; };
  std::function<void(Bytes peak)> progress = [](Bytes) {};
};

/// The best placement found, starting from two. Packed by a good rule is better to start from than packed with a low
/// peak, but not for every problem.
Placement lower_the_peak(const Problem& problem, const Placement& start, const Placement& other_start,
                         const ImproveLimits& limits);

}  // namespace memreel::plan
