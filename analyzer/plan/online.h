// SPDX-License-Identifier: Apache-2.0
// Online allocation as one plan among others: what an allocator would do that sees one request after another. On real
// programs it is hard to beat; with many short lifetimes it beats the greedy planners.
#pragma once

#include <span>

#include "analyzer/plan/gap_index.h"
#include "analyzer/plan/problem.h"

namespace memreel::plan {

enum class Direction : std::uint8_t { forwards, backwards };  // backwards: time reversed, an equally valid plan

/// fit.best or fit.first (analyzer/policies/growing_range.h) without pages. If the sizes add up to more than these can
/// address, returns no offsets and a peak above all others.
Placement place_online(const Problem& problem, std::span<const Buffer> buffers, Fit fit, Direction direction);

}  // namespace memreel::plan
