// Complete search for a placement below a capacity: finds one, or proves that there is none, given enough nodes.
//
// After Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
// If there is a placement, there is one in which no buffer can sink. Listed from the bottom up (ties in a fixed order),
// each of its buffers lies at the lowest offset above all earlier ones that overlap it in time. So it suffices to try,
// at every step, the buffers that can come next, and to prune if
// - in some section, some set of remaining buffers has less room above the lowest of them than it needs;
// - another buffer would fit below the one that is tried, or is stuck below the offset reached.
// Parts that are separate in time are solved separately; a buffer that nothing remains to lie above is placed without
// trying alternatives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// Improves `best` to the least peak that can be found in `nodes` search steps. Deterministic. Returns a lower bound
/// for every placement, at least problem.load: the peak itself if it is proven to be optimal.
Bytes search_below(const Problem& problem, Placement& best, std::uint64_t nodes);

/// The search stores every overlapping pair, and what it can do in reasonable time ends far below this.
inline constexpr std::uint32_t most_searched = 1000;

}  // namespace memreel::plan
