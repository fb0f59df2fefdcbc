// SPDX-License-Identifier: Apache-2.0
// Plans from several busy instants at once: where parts meet nothing overlaps, and what does not fit is fitted in.
#include "analyzer/replay/plan/outward.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "analyzer/replay/plan/local_search.h"
#include "tests/unit/analyzer/plan/instances.h"

namespace memreel::plan {
namespace {

using testing::Buffers;

constexpr Bytes endless{std::numeric_limits<std::uint64_t>::max()};

TEST(MakeRoom, JoinsPiecesByMovingWhatMayMove) {
  // 1 is free below the second, 1 above it, and 1 above the third, which has to stay.
  const std::vector<Tenant> tenants{{.lifetime = {0, 9}, .size = 2_B, .is_out = true},
                                    {.lifetime = {0, 5}, .size = 1_B, .offset = 1_B},
                                    {.lifetime = {2, 9}, .size = 6_B, .offset = 3_B, .stays = true}};
  std::vector<Tenant> moved = tenants;
  ASSERT_TRUE(make_room(moved, 10_B, 1000));
  EXPECT_EQ(moved[2].offset, 3_B);
  EXPECT_LE(moved[0].offset, 1_B);
  EXPECT_TRUE(moved[1].offset >= moved[0].offset + 2_B || moved[1].offset + 1_B <= moved[0].offset);
  moved = tenants;
  moved[1].stays = true;
  EXPECT_FALSE(make_room(moved, 10_B, 1000)) << "no two free bytes adjoin";
}

TEST(Sweep, GoesAroundWhatIsAwaited) {
  // Only the second ends before what is awaited begins.
  const Buffers buffers{{0, 20, 4_B}, {2, 30, 3_B}, {4, 8, 3_B}, {10, 30, 3_B}, {12, 30, 9_B}};
  const Problem problem = make_problem(buffers, 1_B);
  std::vector<Bytes> offsets(buffers.size());
  offsets[3] = 4_B;
  const Course course{.forwards = true, .stack = {0}, .begins = {1, 2, 4}, .awaited = {3}};
  const Swept swept = sweep(problem, course, offsets, std::array{Preference{.together = 0}}, {.enough = 12_B});
  EXPECT_EQ(swept.rows, (std::vector<Row>{1, 2, 4}));
  ASSERT_EQ(swept.offsets.size(), 3U);
  EXPECT_EQ(swept.offsets[0], 7_B);
  EXPECT_EQ(swept.offsets[1], 4_B);
  EXPECT_GE(swept.offsets[2], 10_B);
  EXPECT_GT(swept.peak, 12_B);
}

/// Lifetimes of up to 400, at any of 20,000 times.
Buffers at_any_time(std::uint32_t seed) {
  std::mt19937 random(seed);
  Buffers buffers;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const std::uint64_t begin = random() % 20'000, end = begin + 1 + random() % 400;
    buffers.push_back({.lower = begin, .upper = end, .size = {1 + random() % 100'000}});
  }
  return buffers;
}

TEST(Joined, IsBetterThanFromOneInstantWhereSeveralAreAsBusy) {
  const std::array preferences{Preference{}, Preference{.together = 1}, Preference{.together = 0.4, .reuse = 1},
                               Preference{.together = 0.8, .reuse = 0.8}};
  for (const std::uint32_t seed : {4U, 56U, 59U}) {  // something has to be fitted in of the second
    const Buffers buffers = at_any_time(seed);
    const Problem problem = make_problem(buffers, 1_B);
    const SweepLimits limits{.enough = problem.load + Bytes{problem.load.count / 100}, .again = 100'000};
    const Placement joined = place_joined(problem, preferences, limits);
    EXPECT_LE(joined.peak, limits.enough) << seed;
    EXPECT_EQ(fault_of(buffers, joined.offsets, {.capacity = joined.peak}), std::nullopt) << seed;
    EXPECT_GT(place_outward(problem, preferences, limits).peak, limits.enough) << seed;
    EXPECT_EQ(place_joined(problem, preferences, limits, 3).offsets, joined.offsets) << seed;
  }
}

TEST(Joined, IsNothingWhereOneInstantIsTheBusiest) {
  const Buffers buffers{{0, 2, 1_B}, {1, 3, 2_B}, {2, 5, 1_B}};
  const Problem problem = make_problem(buffers, 1_B);
  EXPECT_EQ(place_joined(problem, std::array{Preference{}}, {.enough = problem.load}).peak, endless);
}

}  // namespace
}  // namespace memreel::plan
