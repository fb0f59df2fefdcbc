// SPDX-License-Identifier: Apache-2.0
// Places outward from the instant at which most is alive, first what is alive then, without any gap.
//
// From a stack of it (stack.h), time is swept in both directions (sweep.h). The further from the busiest instant, the
// less is alive, so that more may be wasted: gaps between what is placed grow as room for them does. Other instants
// that are as busy are where a plan exceeds LOAD.
#pragma once

#include <cstdint>
#include <span>

#include "analyzer/plan/problem.h"
#include "analyzer/plan/sweep.h"

namespace memreel::plan {

/// How many orders of the stack are swept from by all preferences, in both directions, unless the first is enough.
constexpr std::uint64_t stacks_swept = 2;

/// By several preferences, of which the best at each time counts; nothing if the peak would not be below the limit.
/// Threads make no difference to the result.
Placement place_outward(const Problem& problem, std::span<const Preference> preferences, const SweepLimits& limits,
                        unsigned threads = 1);

}  // namespace memreel::plan
