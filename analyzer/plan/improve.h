// Local search over the order in which buffers are placed.
#pragma once

#include "analyzer/plan/greedy.h"
#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// Starts from `order`; again and again the buffers that end at the peak are placed earlier than before, for they are
/// those that came too late to find room below. Returns the best placement met: at LOAD, or when two hundred rounds are
/// over, or `effort`, which they raise, is past `most_effort`.
Placement raise_the_highest(const Problem& problem, Order order, std::uint64_t most_effort, std::uint64_t& effort);

}  // namespace memreel::plan
