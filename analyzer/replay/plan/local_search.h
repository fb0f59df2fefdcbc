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

#include <functional>
#include <vector>

#include "analyzer/replay/plan/problem.h"

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

// Finds room for what has none, where there is enough of it, but in pieces.
//
// One after the other, what is out is put where what is in the way costs the least, and that is out instead: size times
// time, where larger and longer ones cost a little more, since of two that take as much as one, each will find room
// more easily. What was put somewhere stays there for some steps, so that the search does not go in circles. Partial
// solutions as the state, and a tabu list with random tenures, are Blöchliger and Zufferey's (see above).
// Other than there, no buffer gets heavier: where the room ends, nearly all of the memory is taken, and what is pushed
// in pushes out more.

struct Tenant {
  Lifetime lifetime;
  Bytes size;
  Bytes offset;
  bool stays = false;   // where it is, whatever needs the room
  bool is_out = false;  // lies nowhere yet
};

/// Moves tenants, sorted by their first section, until none is out and all that don't stay end at `most` or below. The
/// effort is in pairs of tenants alive at the same time, some ten nanoseconds each. Returns whether it has found a
/// place for each; if not, offsets are of no use.
bool make_room(std::vector<Tenant>& tenants, Bytes most, std::uint64_t effort);

}  // namespace memreel::plan
