// SPDX-License-Identifier: Apache-2.0
// Places outward from the instant at which most is alive, first what is alive then, without any gap.
//
// From a stack of it, time is swept in both directions (sweep.h). The further from the busiest instant, the
// less is alive, so that more may be wasted: gaps between what is placed grow as room for them does. Other instants
// that are as busy are where a plan exceeds LOAD.
#pragma once

#include <span>
#include <vector>

#include "analyzer/replay/plan/problem.h"
#include "analyzer/replay/plan/sweep.h"

namespace memreel::plan {

/// How many orders of the stack are swept from by all preferences, in both directions, unless the first is enough.
constexpr std::uint64_t stacks_swept = 2;

/// By several preferences, of which the best at each time counts; nothing if the peak would not be below the limit.
/// Threads make no difference to the result.
Placement place_outward(const Problem& problem, std::span<const Preference> preferences, const SweepLimits& limits,
                        unsigned threads = 1);

// Stacks what is alive at one instant, without any gap.
//
// How the stack is ordered decides whether what ends soon after the instant, and what has begun shortly before it,
// leaves one gap or many. In order of their ends, a stack is emptied from the top forwards in time, but leaves gaps
// everywhere backwards. So what has lived for long lies above the rest, in order of ends, and the rest in order of
// begins:
//
//   forwards, the top is free soon     | old: ends last ... ends first  |  top
//   backwards, so is the middle        | young: began first ... last    |  bottom
//
// Buchsbaum et al. (see plan.h) box together what is alive at one instant.

/// Bytes alive in each section.
std::vector<Bytes> bytes_alive(const Problem& problem);

/// What is alive in a section, from the bottom to the top, and sets its offsets, which are by buffer. Old is what has
/// spent the share `balance` of its life.
std::vector<std::uint32_t> stack_at(const Problem& problem, std::uint32_t section, double balance,
                                    std::vector<Bytes>& offsets);

// Places outward from several instants at which nearly as much is alive as ever, and joins what meets between them.
//
// A sweep from one instant comes to the others with the gaps that it has made on the way, and exceeds LOAD
// there. So each gets a stack of its own, where they are so far apart that no buffer is alive near two of them, and
// time is swept from each. Between two of them, at the time at which the least is alive, what is swept backwards meets
// what has been swept forwards, and goes around it. What fits nowhere then is fitted in by a search (local_search.h)
// that may move what is alive between the two, but for the times at which most is alive: in the middle there is room,
// only not in one piece.

/// Nothing if there are no such instants, or the peak would not be below the limit, or something fits nowhere below
/// what is enough. Threads make no difference to the result.
Placement place_joined(const Problem& problem, std::span<const Preference> preferences, const SweepLimits& limits,
                       unsigned threads = 1);

}  // namespace memreel::plan
