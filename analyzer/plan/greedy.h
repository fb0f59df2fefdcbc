// SPDX-License-Identifier: Apache-2.0
// Places one buffer after another, each where it fits among those placed before.
//
// Largest first into the smallest gap is the method of TensorFlow Lite's and XLA's planners (Pisarchyk and Lee,
// "Efficient memory management for deep neural net inference", arXiv 2001.03288).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/plan/gap_index.h"
#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// Buffers in placement order.
using Order = std::vector<std::uint32_t>;

/// Greatest first, ties by the other keys, the buffer that arrives first, and its row.
Order order_by_size(const Problem& problem);      // then lifetime
Order order_by_area(const Problem& problem);      // size times lifetime
Order order_by_lifetime(const Problem& problem);  // then size

/// Adds GapIndex::effort() to `effort`. Where `buffers` are given, each is as aligned as it needs, and those that have
/// to lie somewhere come first.
Placement place_in_order(const Problem& problem, std::span<const std::uint32_t> order, Fit fit, std::uint64_t& effort,
                         std::span<const Buffer> buffers = {});

}  // namespace memreel::plan
