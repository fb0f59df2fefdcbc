// Searches for a placement below a capacity, completely: finds one, or proves that there is none, given enough nodes.
//
// After Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
// If there is a placement there is one in which no buffer can sink. Listed from the bottom up (ties in a fixed order),
// each of its buffers lies at the lowest offset above all those listed before it that share its time. So it is enough
// to try, at every step, the buffers that can come next, and to give up when
// - in some section, some set of buffers still to come has less room above the lowest of them than it needs;
// - another buffer would fit below the one that is tried, or is stuck below the offset reached.
// What falls apart in time is solved apart; what nothing is left to lie above is put down without trying anything else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// Improves `best` to the least peak that can be found in `nodes` steps of search. Deterministic. Returns a lower bound
/// for every placement, at least problem.load: the peak itself when it is proven to be the least.
Bytes search_below(const Problem& problem, Placement& best, std::uint64_t nodes);

/// The search keeps every pair that overlaps, and what it can do in reasonable time ends far below this.
inline constexpr std::uint32_t most_searched = 1000;

}  // namespace memreel::plan
