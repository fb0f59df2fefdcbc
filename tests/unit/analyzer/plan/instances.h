// SPDX-License-Identifier: Apache-2.0
// Instances to plan, and the properties of every valid plan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/replay/plan/plan.h"
#include "analyzer/replay/plan/problem.h"
#include "tests/bench/synthetic.h"

namespace memreel::plan::testing {

using Buffers = std::vector<Buffer>;

inline Buffers random_buffers(std::uint64_t seed, std::uint32_t count, std::uint64_t times, std::uint64_t most) {
  synthetic::Random random(seed);
  Buffers buffers;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t lower = random.below(times),
                        length = 1 + random.below(random.chance(8) ? times : times / 8 + 1);
    buffers.push_back({.lower = lower, .upper = lower + length, .size = Bytes{1 + random.below(most)}});
  }
  return buffers;
}

/// A rectangle of `time` by `size`, cut into `count` pieces: it is fully used at all times, so the minimum peak is
/// `size`.
inline Buffers perfect_packing(std::uint64_t seed, std::uint32_t count, std::uint64_t time, std::uint64_t size) {
  synthetic::Random random(seed);
  Buffers pieces{{.lower = 0, .upper = time, .size = Bytes{size}}};
  while (pieces.size() < count) {
    Buffer& piece = pieces[random.below(pieces.size())];
    Buffer other = piece;
    if (random.chance(2)) {
      if (piece.upper - piece.lower < 2) continue;
      other.lower = piece.upper = piece.lower + 1 + random.below(piece.upper - piece.lower - 1);
    } else {
      if (piece.size < 2_B) continue;
      piece.size = {1 + random.below(piece.size.count - 1)};
      other.size -= piece.size;
    }
    pieces.push_back(other);
  }
  return pieces;
}

/// The plan has no fault, and is as good as it says.
inline void expect_sound(const Buffers& buffers, const Plan& plan, Bytes align) {
  EXPECT_EQ(fault_of(buffers, plan.offsets, {.align = align, .capacity = plan.peak}), std::nullopt);
  Bytes peak;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    peak = std::max(peak, plan.offsets[i] + round_up(std::max(buffers[i].size, 1_B), align));
  EXPECT_EQ(plan.peak, peak);
  EXPECT_LE(plan.load, plan.bound);
  EXPECT_LE(plan.bound, plan.peak);
}

/// Greedy, straight from the rule: looks at every buffer placed before, in order of offset.
inline std::vector<Bytes> naive_greedy(const Problem& problem, const std::vector<std::uint32_t>& order, bool smallest) {
  std::vector<Bytes> offsets(problem.count());
  std::vector<std::uint32_t> placed;  // by offset
  for (const std::uint32_t b : order) {
    Bytes end, chosen, gap{~std::uint64_t{0}};
    for (const std::uint32_t p : placed) {
      if (!problem.lifetimes[p].overlaps(problem.lifetimes[b])) continue;
      const Bytes free = offsets[p] > end ? offsets[p] - end : 0_B;
      if (free >= problem.sizes[b] && (gap.count == ~std::uint64_t{0} || (smallest && free < gap))) {
        gap = free;
        chosen = end;
      }
      end = std::max(end, offsets[p] + problem.sizes[p]);
    }
    offsets[b] = gap.count == ~std::uint64_t{0} ? end : chosen;
    const auto at =
        std::ranges::lower_bound(placed, offsets[b], std::less{}, [&](std::uint32_t p) { return offsets[p]; });
    placed.insert(at, b);
  }
  return offsets;
}

}  // namespace memreel::plan::testing
