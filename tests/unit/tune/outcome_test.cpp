// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/outcome.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace memreel {
namespace {

/// On one device.
Outcome outcome(std::string name, Bytes peak, std::uint64_t mallocs = 10, std::size_t changes = 1,
                std::uint64_t failures = 0) {
  Outcome o{.policy = {.name = std::move(name), .parameters = {}}, .changes = changes, .heaps = {}, .min_capacity = {}};
  o.heaps.push_back({.peak_reserved = peak, .failed_allocations = failures, .driver_calls = {.malloc = mallocs}});
  return o;
}

std::string order(std::vector<Outcome> outcomes, bool limited = false) {
  rank(outcomes, limited);
  std::string names;
  for (const Outcome& o : outcomes) names += o.policy.name;
  return names;
}

TEST(Rank, TheLowestPeakIsFirst) {
  EXPECT_EQ(order({outcome("a", 3_GiB), outcome("b", 1_GiB), outcome("c", 2_GiB)}), "bca");
}

TEST(Rank, WhatFailsComesLast) {
  EXPECT_EQ(order({outcome("a", 1_GiB, 10, 1, 5), outcome("b", 3_GiB), outcome("c", 2_GiB, 10, 1, 2)}), "bca");
}

TEST(Rank, PeaksWithinTheMarginAreEqualAndFewerChangesWin) {
  EXPECT_EQ(order({outcome("a", 1000_MiB, 10, 3), outcome("b", 1009_MiB, 10, 1), outcome("c", 1011_MiB, 10, 1)}),
            "bac");
}

TEST(Rank, AmongEqualPeaksManyMoreDriverCallsLose) {
  EXPECT_EQ(order({outcome("a", 1000_MiB, 100'000, 1), outcome("b", 1005_MiB, 10, 2)}), "ba");
  // A difference too small to notice in a run does not count.
  EXPECT_EQ(order({outcome("a", 1000_MiB, 100, 1), outcome("b", 1005_MiB, 10, 2)}), "ab");
}

TEST(Rank, ALimitIsToBeKeptNotUndercut) {
  EXPECT_EQ(order({outcome("a", 1_GiB, 100'000), outcome("b", 2_GiB, 10), outcome("c", 1_GiB, 5, 1, 1)}, true), "bac");
}

/// Of torch.native, with settings besides its defaults.
Outcome with(std::map<std::string, std::string> settings, std::uint64_t failures) {
  Outcome o = outcome("torch.native", 1_GiB, 10, settings.size(), failures);
  o.policy.parameters = std::move(settings);
  return o;
}

TEST(Rank, OfEqualFailuresOneSettingPrecedesACombination) {
  std::vector<Outcome> outcomes{with({{"expandable_segments", "True"},
                                      {"garbage_collection_threshold", "0.8"},
                                      {"large_segment_size_mb", "64"},
                                      {"max_split_size_mb", "128"}},
                                     7),
                                with({{"max_split_size_mb", "300"}}, 7), with({{"max_split_size_mb", "128"}}, 7),
                                with({{"roundup_power2_divisions", "4"}, {"max_split_size_mb", "40"}}, 6)};
  rank(outcomes, true);
  EXPECT_EQ(outcomes[0].failures(), 6U);
  EXPECT_EQ(outcomes[1].policy.parameters.at("max_split_size_mb"), "128") << "the least specific value";
  EXPECT_EQ(outcomes[2].policy.parameters.at("max_split_size_mb"), "300");
  EXPECT_EQ(outcomes[3].changes, 4U);
}

TEST(Rank, OfEqualPeaksTheLeastSpecificValueIsFirst) {
  std::vector<Outcome> outcomes{with({{"max_split_size_mb", "300"}}, 0), with({{"max_split_size_mb", "128"}}, 0)};
  outcomes[1].heaps[0].peak_reserved += 1_MiB;
  rank(outcomes, false);
  EXPECT_EQ(outcomes[0].policy.parameters.at("max_split_size_mb"), "128");
}

TEST(Rank, DoesNotDependOnTheOrderItIsGiven) {
  const std::initializer_list<Outcome> list{outcome("a", 1000_MiB, 10, 2), outcome("b", 1002_MiB, 10, 1),
                                            outcome("c", 1100_MiB), outcome("d", 1100_MiB)};
  std::vector<Outcome> outcomes(list);
  const std::string expected = order(outcomes);
  for (int i = 0; i < 4; ++i) {
    std::rotate(outcomes.begin(), outcomes.begin() + 1, outcomes.end());
    EXPECT_EQ(order(outcomes), expected);
  }
}

TEST(Outcome, AProcessIsJudgedByItsWorstDevice) {
  Outcome o = outcome("a", 3_GiB, 10);
  o.heaps.push_back({.device = 1,
                     .peak_reserved = 5_GiB,
                     .failed_allocations = 2,
                     .first_failure = ReplayFailure{.event = 7},
                     .driver_calls = {.malloc = 1, .map = 4}});
  EXPECT_EQ(o.peak_reserved(), 5_GiB);
  EXPECT_EQ(o.worst().device, 1);
  EXPECT_EQ(o.driver_calls().malloc, 11U);
  EXPECT_EQ(o.driver_calls().map, 4U);
  EXPECT_EQ(o.failures(), 2U);
  EXPECT_EQ(o.first_failure()->event, 7U);
}

TEST(Outcome, SavedShareIsSigned) {
  EXPECT_DOUBLE_EQ(saved_share(4_GiB, 3_GiB), 0.25);
  EXPECT_DOUBLE_EQ(saved_share(4_GiB, 5_GiB), -0.25);
  EXPECT_DOUBLE_EQ(saved_share(0_B, 5_GiB), 0);
}

}  // namespace
}  // namespace memreel
