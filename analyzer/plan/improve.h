// Local search over the placement order of buffers.
#pragma once

#include "analyzer/plan/greedy.h"
#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// Starts from `order` and repeatedly places the buffers that end at the peak earlier, because they came too late to
/// find room below. Returns the best placement found: at LOAD, after two hundred rounds, or once `effort`, which the
/// rounds increase, exceeds `most_effort`.
Placement raise_the_highest(const Problem& problem, Order order, std::uint64_t most_effort, std::uint64_t& effort);

}  // namespace memreel::plan
