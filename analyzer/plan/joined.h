// SPDX-License-Identifier: Apache-2.0
// Places outward from several instants at which nearly as much is alive as ever, and joins what meets between them.
//
// A sweep from one instant (outward.h) comes to the others with the gaps that it has made on the way, and exceeds LOAD
// there. So each gets a stack of its own, where they are so far apart that no buffer is alive near two of them, and
// time is swept from each. Between two of them, at the time at which the least is alive, what is swept backwards meets
// what has been swept forwards, and goes around it. What fits nowhere then is fitted in by a search (make_room.h) that
// may move what is alive between the two, but for the times at which most is alive: in the middle there is room, only
// not in one piece.
#pragma once

#include <cstdint>
#include <span>

#include "analyzer/plan/problem.h"
#include "analyzer/plan/sweep.h"

namespace memreel::plan {

/// Nothing if there are no such instants, or the peak would not be below the limit, or something fits nowhere below
/// what is enough. Threads make no difference to the result.
Placement place_joined(const Problem& problem, std::span<const Preference> preferences, const SweepLimits& limits,
                       unsigned threads = 1);

}  // namespace memreel::plan
