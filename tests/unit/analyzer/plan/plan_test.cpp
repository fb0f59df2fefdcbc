// SPDX-License-Identifier: Apache-2.0
// Plans are valid, as good as they claim, and deterministic.
#include "analyzer/replay/plan/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <numeric>
#include <string>

#include "analyzer/replay/plan/first_fit.h"
#include "analyzer/replay/plan/outward.h"
#include "analyzer/replay/plan/search.h"
#include "tests/unit/analyzer/plan/instances.h"

namespace memreel::plan {
namespace {

using testing::Buffers;
using testing::expect_sound;

const Options bytewise{.align = 1_B};

/// The minimum peak, by trying every order with each buffer at its lowest offset: the order of an optimal plan by
/// offset is among them.
Bytes least_peak(const Buffers& buffers) {
  const Problem problem = make_problem(buffers, 1_B);
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  Bytes least{~std::uint64_t{0}};
  do {
    const std::vector<Bytes> offsets = testing::naive_greedy(problem, order, false);
    Bytes peak;
    for (std::size_t b = 0; b < offsets.size(); ++b) peak = std::max(peak, offsets[b] + problem.sizes[b]);
    least = std::min(least, peak);
  } while (std::ranges::next_permutation(order).found);
  return least;
}

TEST(Problem, WhatEndsAtAnInstantMakesRoomForWhatBeginsThere) {
  const Buffers buffers{{0, 4, 10_B}, {4, 8, 10_B}, {2, 6, 5_B}, {8, 9, 1_B}};
  const Problem problem = make_problem(buffers, 1_B);
  EXPECT_EQ(problem.load, 15_B);
  EXPECT_EQ(problem.largest, 10_B);
  EXPECT_FALSE(problem.lifetimes[0].overlaps(problem.lifetimes[1]));
  EXPECT_TRUE(problem.lifetimes[0].overlaps(problem.lifetimes[2]));
  EXPECT_TRUE(problem.lifetimes[1].overlaps(problem.lifetimes[2]));
  EXPECT_FALSE(problem.lifetimes[1].overlaps(problem.lifetimes[3]));
  EXPECT_EQ(problem.section_count, 3U);
}

TEST(Problem, SectionsKeepWhatOverlaps) {
  const Buffers buffers = testing::random_buffers(7, 200, 60, 9);
  const Problem problem = make_problem(buffers, 1_B);
  for (std::uint32_t a = 0; a < buffers.size(); ++a)
    for (std::uint32_t b = 0; b < a; ++b)
      ASSERT_EQ(problem.lifetimes[a].overlaps(problem.lifetimes[b]),
                buffers[a].lower < buffers[b].upper && buffers[b].lower < buffers[a].upper);
}

TEST(Problem, SizesAreRoundedUpAndNothingTakesNothing) {
  const Problem problem = make_problem(Buffers{{0, 1, 0_B}, {0, 1, 513_B}, {5, 5, 1_B}}, 512_B);
  EXPECT_EQ(problem.sizes, (std::vector<Bytes>{512_B, 1024_B, 512_B}));
  EXPECT_EQ(problem.load, 1536_B);
}

TEST(PlanBySize, TakesTheSmallestGapAndOfEqualOnesTheLowest) {
  // 20 lies below the others at all times; on it lies 12 at first, then 11 with 1 above.
  const Buffers buffers{{0, 9, 20_B}, {0, 4, 12_B}, {5, 9, 11_B}, {5, 9, 1_B}};
  const Plan plan = plan_by_size(buffers, bytewise);
  expect_sound(buffers, plan, 1_B);
  EXPECT_EQ(plan.offsets, (std::vector<Bytes>{0_B, 20_B, 20_B, 31_B}));
}

TEST(PlanBySize, DecidesAsTheRuleSaysWithoutTheIndex) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    const Buffers buffers = testing::random_buffers(seed, 400, 50 * seed, seed % 2 == 0 ? 12 : 5000);
    const Problem problem = make_problem(buffers, 1_B);
    for (const Order& order : {order_by_size(problem), order_by_area(problem), order_by_lifetime(problem)})
      for (const Fit fit : {Fit::smallest, Fit::lowest}) {
        std::uint64_t effort = 0;
        ASSERT_EQ(place_in_order(problem, order, fit, effort).offsets,
                  testing::naive_greedy(problem, order, fit == Fit::smallest));
      }
  }
}

TEST(GapIndex, FindsTheSameWhereverTimeIsCut) {
  for (const std::uint64_t times : {30U, 2000U, 20'000U}) {  // all blocks one section; some; many groups of blocks
    const Buffers buffers = testing::random_buffers(times, 1000, times, 300);
    const Problem problem = make_problem(buffers, 1_B);
    for (const Order& order : {order_by_size(problem), order_by_lifetime(problem)})
      for (const Fit fit : {Fit::smallest, Fit::lowest}) {
        const std::vector<Bytes> expected = testing::naive_greedy(problem, order, fit == Fit::smallest);
        for (const std::uint32_t most_edges : {1U, 3U, 40U}) {
          GapIndex index(problem, most_edges);
          for (const std::uint32_t b : order) {
            const Bytes offset = index.find(problem.lifetimes[b], problem.sizes[b], fit);
            ASSERT_EQ(offset, expected[b]) << "buffer " << b << " of " << times << ", blocks of " << most_edges;
            index.take(problem.lifetimes[b], offset, problem.sizes[b], 1_B);
          }
        }
      }
  }
}

TEST(Outward, StacksWhatIsAliveAtTheBusiestInstantWithoutAnyGap) {
  for (const std::uint64_t seed : {31U, 32U, 33U}) {
    const Buffers buffers = testing::random_buffers(seed, 800, 300, 5000);
    const Problem problem = make_problem(buffers, 1_B);
    const Placement placement = place_outward(problem, std::array{Preference{}}, {.enough = problem.load});
    ASSERT_EQ(fault_of(buffers, placement.offsets, {.capacity = placement.peak}), std::nullopt);
    std::vector<Bytes> tops(problem.section_count);
    for (std::uint32_t b = 0; b < problem.count(); ++b)
      problem.for_each_section(
          b, [&](std::uint32_t s) { tops[s] = std::max(tops[s], placement.offsets[b] + problem.sizes[b]); });
    EXPECT_NE(std::ranges::find(tops, problem.load), tops.end());
  }
}

TEST(Sweep, PrefersANeighbourThatEndsAtTheSameTimeToAGapThatFitsExactly) {
  // When the fourth is wanted, 4 are free between two that end soon, and 5 below one that ends when it does.
  const Buffers buffers{{0, 7, 10_B},  {2, 8, 10_B},  {3, 20, 10_B}, {5, 20, 4_B},
                        {10, 11, 1_B}, {12, 13, 1_B}, {14, 15, 1_B}};
  const Problem problem = make_problem(buffers, 1_B);
  std::vector<Bytes> stacked(buffers.size());
  stacked[1] = 14_B;
  stacked[2] = 29_B;
  const Course course{.forwards = true, .stack = {0, 1, 2}, .begins = {3, 4, 5, 6}};
  const auto offset = [&](double together) {
    return sweep(problem, course, stacked, std::array{Preference{.together = together}}, {.enough = 39_B}).offsets[0];
  };
  EXPECT_EQ(offset(0.3), 25_B);
  EXPECT_EQ(offset(0), 10_B);
}

/// Sizes up to 5000, at 8000 times.
Buffers short_lived(std::uint64_t seed, std::uint64_t longest) {
  Buffers buffers = testing::random_buffers(seed, 8000, 8000, 5000);
  for (Buffer& buffer : buffers) buffer.upper = std::min(buffer.upper, buffer.lower + longest);
  return buffers;
}

TEST(Outward, IsBetterByPreferencesThatChangeThanByOne) {
  const std::array preferences{Preference{}, Preference{.reuse = 1}, Preference{.together = 1, .reuse = 1}};
  Bytes sum, sum_of_one;
  for (const std::uint64_t seed : {41U, 42U, 43U, 44U}) {
    const Buffers buffers = short_lived(seed, 100);
    const Problem problem = make_problem(buffers, 1_B);
    const Placement best = place_outward(problem, preferences, {.enough = problem.load});
    ASSERT_EQ(fault_of(buffers, best.offsets, {.capacity = best.peak}), std::nullopt);
    sum += best.peak;
    sum_of_one += place_outward(problem, std::span(preferences).first(1), {.enough = problem.load}).peak;
    const SweepLimits just_enough{.enough = problem.load, .below = best.peak + 1_B};
    EXPECT_EQ(place_outward(problem, preferences, just_enough, 3).offsets, best.offsets);
    EXPECT_EQ(place_outward(problem, preferences, {.enough = problem.load, .below = best.peak}).peak, best.peak);
  }
  EXPECT_LT(sum, sum_of_one);
}

TEST(Outward, ComesAgainWhereItWasTooHigh) {
  const std::array preferences{Preference{}, Preference{.reuse = 1}};
  Bytes sum, sum_again;
  for (const std::uint64_t seed : {51U, 52U, 53U, 54U}) {
    const Buffers buffers = short_lived(seed, 500);
    const Problem problem = make_problem(buffers, 1_B);
    const Bytes enough = problem.load + Bytes{problem.load.count / 100};
    sum += place_outward(problem, preferences, {.enough = enough}).peak;
    const Placement again = place_outward(problem, preferences, {.enough = enough, .again = 100'000});
    ASSERT_EQ(fault_of(buffers, again.offsets, {.capacity = again.peak}), std::nullopt);
    sum_again += again.peak;
  }
  EXPECT_LT(sum_again, sum);
}

TEST(Outward, KnowsItsPeakWhereItEndedHigherBeforeWhatWasPlacedAgain) {
  const std::array preferences{Preference{}, Preference{.reuse = 1}};
  for (const auto& [seed, longest, share] : {std::array{53U, 500U, 200U}, {51U, 1000U, 50U}, {60U, 1000U, 200U}}) {
    const Buffers buffers = short_lived(seed, longest);
    const Problem problem = make_problem(buffers, 1_B);
    const Bytes enough = problem.load + Bytes{problem.load.count / share};
    const Placement again = place_outward(problem, preferences, {.enough = enough, .again = 100'000});
    EXPECT_EQ(fault_of(buffers, again.offsets, {.capacity = again.peak}), std::nullopt) << seed;
  }
}

TEST(PlanBest, FindsTheLeastPeakOfTinyInstances) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Buffers buffers = testing::random_buffers(seed, 7, 6 + seed % 5, 3 + seed % 9);
    const Plan plan = plan_best(buffers, bytewise);
    expect_sound(buffers, plan, 1_B);
    ASSERT_EQ(plan.peak, least_peak(buffers)) << seed;
    ASSERT_EQ(plan.bound, plan.peak) << seed << ": it was found and not proven";
  }
}

TEST(PlanBest, IsSoundAndNoWorseThanAnyOfItsPortfolio) {
  for (const std::uint64_t seed : {11U, 12U, 13U}) {
    const Buffers buffers = testing::random_buffers(seed, 1500, 900, 100'000);
    const Plan best = plan_best(buffers, {.effort = 10'000'000}), by_size = plan_by_size(buffers);
    expect_sound(buffers, best, 512_B);
    expect_sound(buffers, by_size, 512_B);
    EXPECT_LE(best.peak, by_size.peak);
    EXPECT_EQ(best.load, by_size.load);
  }
}

TEST(PlanBest, ComesCloserToTheBoundThanAnyGreedyOrder) {
  synthetic::Random random(14);
  Buffers buffers;
  for (std::uint64_t begin = 0; begin < 5000; ++begin)  // too many for the search
    buffers.push_back({begin, begin + 1 + random.below(100), 512_B * (1 + random.below(2U << random.below(12)))});
  const Options options{.effort = 50'000'000};
  const Plan plan = plan_best(buffers, options);
  expect_sound(buffers, plan, 512_B);
  EXPECT_EQ(plan.method, "ejection");
  EXPECT_LT(plan.gap(), plan_by_size(buffers).gap() / 2);
  Options shared = options;
  shared.threads = 2;
  EXPECT_EQ(plan_best(buffers, shared).offsets, plan.offsets);
}

/// Lifetimes and sizes of one kind: too many for the search.
struct Kind {
  const char* name;
  Buffer (*buffer)(synthetic::Random&, std::uint64_t begin);
  double most_over;  // the bound
};

constexpr std::array kinds{
    Kind{"of any size and lifetime",
         [](synthetic::Random& random, std::uint64_t begin) {
           return Buffer{begin, begin + 1 + random.below(100), Bytes{1 + random.below(1 << 20)}};
         },
         0.05},
    Kind{"of sizes that differ by orders of magnitude",
         [](synthetic::Random& random, std::uint64_t begin) {
           return Buffer{begin, begin + 1 + random.below(100), 512_B * (1 + random.below(2U << random.below(15)))};
         },
         0.03},
    Kind{"of powers of two",
         [](synthetic::Random& random, std::uint64_t begin) {
           return Buffer{begin, begin + 1 + random.below(100), Bytes{512U << random.below(12)}};
         },
         0.02},
    Kind{"of few sizes",
         [](synthetic::Random& random, std::uint64_t begin) {
           constexpr std::array<std::uint64_t, 5> sizes{1000, 7168, 40'000, 262'144, 1'000'000};
           return Buffer{begin, begin + 1 + random.below(100), Bytes{sizes[random.below(sizes.size())]}};
         },
         0.02},
    Kind{"with few that are large and few that are long",
         [](synthetic::Random& random, std::uint64_t begin) {
           const std::uint64_t lifetime = 20U << (random.chance(20) ? random.below(7) : 0U);
           return Buffer{begin, begin + 1 + random.below(lifetime),
                         Bytes{4096 * (1 + random.below(random.chance(50) ? 4000U : 16U))}};
         },
         0.02},
};

TEST(PlanBest, ComesCloseToTheBoundWhateverTheDistribution) {
  for (const Kind& kind : kinds)
    for (const Bytes align : {1_B, 512_B}) {
      synthetic::Random random(15);
      Buffers buffers;
      for (std::uint64_t begin = 0; begin < 4500; ++begin) buffers.push_back(kind.buffer(random, begin));
      const Plan plan = plan_best(buffers, {.align = align, .effort = 10'000'000});
      expect_sound(buffers, plan, align);
      EXPECT_LT(plan.gap(), kind.most_over) << kind.name << ", alignment " << align.count;
    }
}

TEST(PlanBest, IsSoundWithGapsAlignmentAndCapacity) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    synthetic::Random random(seed);
    Buffers buffers = testing::random_buffers(seed, 20 + 10 * (seed % 12), 40 + seed, 1U << (4 + seed % 16));
    for (Buffer& buffer : buffers)
      if (const std::uint64_t time = buffer.upper - buffer.lower; time > 4 && random.chance(3)) {
        const std::uint64_t from = buffer.lower + 1 + random.below(time - 3);
        buffer.gaps = {{from, from + 1 + random.below(buffer.upper - from - 1)}};
      }
    const Bytes align{std::uint64_t{1} << (seed % 10)};
    Options options{.align = align, .effort = 100'000};
    const Plan free = plan_best(buffers, options);
    expect_sound(buffers, free, align);
    options.capacity = free.peak + align;
    options.threads = 2;
    const Plan within = plan_best(buffers, options);
    expect_sound(buffers, within, align);
    EXPECT_LE(within.bound, free.peak) << seed << ": such a plan exists";
    options.capacity = free.load;
    const Plan least = plan_best(buffers, options);
    expect_sound(buffers, least, align);
    EXPECT_LE(least.bound, free.peak) << seed;
  }
}

TEST(PlanBest, IsSoundWithAlignmentsAndOffsetsOfBuffers) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    synthetic::Random random(seed);
    Buffers buffers = testing::random_buffers(seed, 20 + 10 * (seed % 12), 40 + seed, 1U << (4 + seed % 8));
    for (Buffer& buffer : buffers) buffer.align = {std::uint64_t{1} << random.below(1 + seed % 8)};
    const Options options{.align = 1_B, .effort = 100'000};
    const Plan free = plan_best(buffers, options);
    expect_sound(buffers, free, 1_B);
    for (std::size_t i = 0; i < buffers.size(); i += 3) buffers[i].offset = free.offsets[i];
    const Plan around = plan_best(buffers, options);
    expect_sound(buffers, around, 1_B);
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].offset = free.offsets[i];
    EXPECT_EQ(plan_best(buffers, options).offsets, free.offsets);
    EXPECT_EQ(plan_best(buffers, options).method, "given");
  }
  // A row of three bytes ends below the four that its alignment would round it up to.
  const Plan three = plan_best(Buffers{{.lower = 0, .upper = 9, .size = 3_B, .align = 2_B}}, bytewise);
  EXPECT_EQ(three.peak, 3_B);
  EXPECT_TRUE(three.proved());
}

TEST(PlanBest, FitsPerfectPackings) {
  for (const std::uint64_t seed : {21U, 22U, 23U, 24U}) {
    const Buffers buffers = testing::perfect_packing(seed, 60, 1000, 1 << 20);
    const Plan plan = plan_best(buffers, bytewise);
    expect_sound(buffers, plan, 1_B);
    EXPECT_EQ(plan.load, 1_MiB);
    EXPECT_EQ(plan.peak, 1_MiB) << seed;
  }
}

TEST(PlanBest, IsTheSameEveryTime) {
  const Buffers buffers = testing::random_buffers(31, 300, 100, 5000);
  const Plan once = plan_best(buffers, {.effort = 10'000'000}), again = plan_best(buffers, {.effort = 10'000'000});
  EXPECT_EQ(once.offsets, again.offsets);
  EXPECT_EQ(once.method, again.method);
  EXPECT_EQ(fault_of(buffers, once.offsets, {.capacity = once.peak}), std::nullopt);
}

TEST(PlanBest, StopsWhereThePeakCantBeLower) {
  const Buffers buffers{{0, 2, 512_B}, {1, 3, 512_B}};
  const Plan plan = plan_best(buffers);
  EXPECT_EQ(fault_of(buffers, plan.offsets, {.capacity = plan.peak}), std::nullopt);
  EXPECT_EQ(plan.peak, 1024_B);
  EXPECT_EQ(plan.method, "best fit");
  EXPECT_EQ(plan.over_load(), 1.0);
  EXPECT_EQ(plan.largest_share(), 0.5);
}

TEST(PlanBest, OfNothingIsNothing) {
  const Plan plan = plan_best(Buffers{});
  EXPECT_EQ(plan.peak, 0_B);
  EXPECT_TRUE(plan.offsets.empty());
}

TEST(Search, ProvesThatACapacityIsTooSmall) {
  // Three of size 2 that overlap in a ring: at most 4 bytes are live, but even 5 would not suffice.
  const Buffers buffers{{0, 3, 2_B}, {2, 5, 2_B}, {4, 6, 2_B}, {0, 1, 1_B}, {1, 2, 1_B}, {5, 6, 1_B}, {3, 4, 1_B}};
  const Problem problem = make_problem(buffers, 1_B);
  Placement best{.offsets = std::vector<Bytes>(problem.count()), .peak = 100_B};
  const Bytes bound = search_below(problem, best, {.effort = 1'000'000});
  EXPECT_EQ(bound, best.peak);
  EXPECT_EQ(best.peak, least_peak(buffers));
  EXPECT_EQ(fault_of(buffers, best.offsets, {.capacity = best.peak}), std::nullopt);
}

/// Instances of google/minimalloc: tests/data/minimalloc/README.md.
Buffers public_instance(const std::string& name) {
  std::ifstream file(std::string(MEMREEL_TEST_DATA "/minimalloc/") + name + ".1048576.csv");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "id,lower,upper,size");
  Buffers buffers;
  for (char comma = 0; std::getline(file, line);) {
    std::istringstream fields(line);
    std::uint64_t id = 0;
    Buffer& buffer = buffers.emplace_back();
    fields >> id >> comma >> buffer.lower >> comma >> buffer.upper >> comma >> buffer.size.count;
  }
  return buffers;
}

struct Instance {
  const char* name;
  std::size_t buffers;
  std::uint64_t load;
};

class PublicInstances : public ::testing::TestWithParam<Instance> {};

/// All are feasible at 1,048,576 bytes. E takes more than the default effort, and less than that of `memreel plan`.
TEST_P(PublicInstances, FitInWhateverOrderTheirRowsAre) {
  const Instance& instance = GetParam();
  Buffers buffers = public_instance(instance.name);
  ASSERT_EQ(buffers.size(), instance.buffers);
  const Options options{.align = 1_B, .effort = 25 * Options{}.effort, .capacity = 1_MiB};
  const Plan plan = plan_best(buffers, options);
  expect_sound(buffers, plan, 1_B);
  EXPECT_EQ(plan.load.count, instance.load);
  EXPECT_LE(plan.peak, 1_MiB);
  synthetic::Random random(1);
  for (std::size_t i = buffers.size() - 1; i > 0; --i) std::swap(buffers[i], buffers[random.below(i + 1)]);
  const Plan shuffled = plan_best(buffers, options);
  expect_sound(buffers, shuffled, 1_B);
  EXPECT_EQ(shuffled.peak, plan.peak);
}

std::string name_of(const ::testing::TestParamInfo<Instance>& instance) { return instance.param.name; }

INSTANTIATE_TEST_SUITE_P(MiniMalloc, PublicInstances,
                         ::testing::Values(Instance{"A", 154, 1048576}, Instance{"B", 170, 1048576},
                                           Instance{"C", 203, 1039360}, Instance{"D", 213, 986112},
                                           Instance{"E", 215, 1048576}, Instance{"F", 296, 1048576},
                                           Instance{"G", 308, 1048576}, Instance{"H", 316, 1048576},
                                           Instance{"I", 374, 1048576}, Instance{"J", 409, 989184},
                                           Instance{"K", 454, 1048576}),
                         name_of);

TEST(PlanBest, AnswersWhetherACapacitySuffices) {
  // A ring: at most 4 bytes are in use at a time, but 5 are not enough.
  const Buffers ring{{0, 3, 2_B}, {2, 5, 2_B}, {4, 6, 2_B}, {0, 1, 1_B}, {1, 2, 1_B}, {5, 6, 1_B}, {3, 4, 1_B}};
  const Bytes least = least_peak(ring);
  const Plan fits = plan_best(ring, {.align = 1_B, .capacity = least});
  expect_sound(ring, fits, 1_B);
  EXPECT_LE(fits.peak, least);
  const Plan too_small = plan_best(ring, {.align = 1_B, .capacity = least - 1_B});
  EXPECT_GE(too_small.bound, least) << "it was not proven";
}

TEST(PlanBest, UsesTheGapsOfALifetime) {
  // Two of 8 that are never in use at the same time, and one that is in between.
  const Buffers buffers{{.lower = 0, .upper = 9, .size = 8_B, .gaps = {{2, 5}}},
                        {.lower = 2, .upper = 5, .size = 8_B, .gaps = {{3, 4}}},
                        {.lower = 3, .upper = 4, .size = 8_B}};
  const Plan plan = plan_best(buffers, bytewise);
  expect_sound(buffers, plan, 1_B);
  EXPECT_EQ(plan.peak, 8_B);
  EXPECT_TRUE(plan.proved());
}

TEST(PlanBest, GivesTheSameWithAnyNumberOfThreads) {
  const Buffers buffers = public_instance("D");
  Options options{.align = 1_B, .effort = 100'000'000};
  const Plan alone = plan_best(buffers, options);
  options.threads = 3;
  const Plan shared = plan_best(buffers, options);
  expect_sound(buffers, shared, 1_B);
  EXPECT_EQ(shared.offsets, alone.offsets);
  EXPECT_EQ(shared.bound, alone.bound);
}

TEST(FaultOf, FindsEveryKindOfFault) {
  const Buffers buffers{{0, 4, 8_B}, {2, 6, 8_B}, {4, 9, 8_B}};
  EXPECT_EQ(fault_of(buffers, std::vector{0_B, 8_B, 0_B}, {.align = 8_B, .capacity = 16_B}), std::nullopt);
  EXPECT_EQ(fault_of(buffers, std::vector{0_B, 8_B}, {}), "3 buffers have 2 offsets");
  EXPECT_EQ(fault_of(buffers, std::vector{0_B, 4_B, 12_B}, {}), "buffer 1 overlaps buffer 0");
  EXPECT_EQ(fault_of(buffers, std::vector{4_B, 0_B, 12_B}, {}), "buffer 1 overlaps buffer 0");
  EXPECT_EQ(fault_of(buffers, std::vector{0_B, 8_B, 0_B}, {.capacity = 15_B}), "buffer 1 ends above the capacity");
  EXPECT_EQ(fault_of(buffers, std::vector{0_B, 9_B, 0_B}, {.align = 2_B}), "buffer 1 is at 9, not aligned to 2");
  Buffers strict = buffers;
  strict[1].align = 16_B;
  EXPECT_EQ(fault_of(strict, std::vector{0_B, 8_B, 0_B}, {}), "buffer 1 is at 8, not aligned to 16");
  strict[1] = {.lower = 2, .upper = 6, .size = 8_B, .offset = 16_B};
  EXPECT_EQ(fault_of(strict, std::vector{0_B, 8_B, 0_B}, {}), "buffer 1 is at 8, not at 16");
}

}  // namespace
}  // namespace memreel::plan
