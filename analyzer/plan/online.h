// What an allocator would do that sees one request after another, as a plan among others: on real programs it is hard
// to beat, and where lifetimes are many and short it beats the greedy planners.
#pragma once

#include <span>

#include "analyzer/plan/gap_index.h"
#include "analyzer/plan/problem.h"

namespace memreel::plan {

enum class Direction : std::uint8_t { forwards, backwards };  // backwards: time reversed, which is as good a plan

/// fit.best or fit.first (analyzer/policies/growing_range.h) without pages. When the sizes add up to more than these
/// can address, no offsets and a peak above all others.
Placement place_online(const Problem& problem, std::span<const Buffer> buffers, Fit fit, Direction direction);

}  // namespace memreel::plan
