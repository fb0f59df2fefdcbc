// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fleet/written_ranks.h"

namespace memreel {
namespace {

using testing::HasSubstr;

/// As many ranks as peaks, each in a class of its own.
Fleet fleet_of(const std::vector<Bytes>& peaks, std::optional<Bytes> capacity = {}) {
  std::vector<RankSummary> summaries;
  for (std::uint32_t rank = 0; rank < peaks.size(); ++rank)
    summaries.push_back(rank_of(rank, peaks[rank].count, peaks[rank]));
  return *assemble_fleet(std::move(summaries), {.capacity = capacity});
}

Check only_check(const Fleet& fleet, const FleetBudgets& budgets) {
  const auto checks = check_fleet(fleet, budgets);
  EXPECT_TRUE(checks);
  EXPECT_EQ(checks->size(), 1U);
  return checks->front();
}

TEST(FleetGate, NinetyNinePercentLeaveOutTheHighestHundredth) {
  std::vector<Bytes> peaks(200, 1_GiB);
  peaks[7] = peaks[8] = 3_GiB;  // one in a hundred
  EXPECT_TRUE(only_check(fleet_of(peaks), {.max_p99 = 1_GiB}).passed());
  EXPECT_FALSE(only_check(fleet_of(peaks), {.max_reserved = 1_GiB}).passed());
  peaks[9] = 2_GiB;
  const Check check = only_check(fleet_of(peaks), {.max_p99 = 1_GiB});
  EXPECT_EQ(std::get<Bytes>(check.value), 2_GiB);
  EXPECT_THAT(check.reason, HasSubstr("rank 7"));
}

TEST(FleetGate, TheMaximumNamesItsRank) {
  const Check check = only_check(fleet_of({1_GiB, 3_GiB, 2_GiB}), {.max_reserved = 2_GiB});
  EXPECT_EQ(check.number, 1);
  EXPECT_THAT(check.reason, HasSubstr("1.00 GiB more"));
}

TEST(FleetGate, ImbalanceIsTheHighestOverTheMean) {
  const Fleet fleet = fleet_of({1_GiB, 1_GiB, 4_GiB});
  EXPECT_TRUE(only_check(fleet, {.max_imbalance = 2.0}).passed());
  EXPECT_THAT(only_check(fleet, {.max_imbalance = 1.99}).reason, HasSubstr("rank 2 reserves 4.00 GiB"));
}

TEST(FleetGate, HeadroomIsThatOfTheTightestRank) {
  const Fleet fleet = fleet_of({1_GiB, 6_GiB}, 8_GiB);
  EXPECT_TRUE(only_check(fleet, {.min_headroom = 2_GiB}).passed());
  const Check check = only_check(fleet, {.min_headroom = 3_GiB});
  EXPECT_EQ(check.number, 1);
  EXPECT_EQ(std::get<Bytes>(check.value), 2_GiB);
  EXPECT_FALSE(only_check(fleet_of({1_GiB, 9_GiB}, 8_GiB), {.min_headroom = 0_B}).passed());
  EXPECT_FALSE(check_fleet(fleet_of({1_GiB}), {.min_headroom = 1_GiB}));  // of an unknown number
}

TEST(FleetGate, EveryRankFitsOnItsDevice) {
  EXPECT_TRUE(only_check(fleet_of({1_GiB, 6_GiB}, 6_GiB), {.all_fit = true}).passed());
  const Check check = only_check(fleet_of({1_GiB, 6_GiB, 2_GiB}, 5_GiB), {.all_fit = true});
  EXPECT_EQ(check.name, "capacity");
  EXPECT_EQ(check.number, 1);
  EXPECT_EQ(check.reason, "device memory of rank 1: 6.00 GiB, 1.00 GiB more than the 5.00 GiB allowed");
}

TEST(FleetGate, TheDeviceWithLeastRoomCounts) {
  RankSummary two = rank_of(0, 1, 4_GiB);  // on the device that it uses most
  two.devices = {{.device = 7, .peak_reserved = 3_GiB, .other = 3_GiB}};
  const Fleet fleet = *assemble_fleet({two}, {.capacity = 5_GiB});
  EXPECT_EQ(std::get<Bytes>(only_check(fleet, {.all_fit = true}).value), 6_GiB);
}

TEST(FleetGate, ABaselineIsByClass) {
  const Fleet before = fleet_of({1_GiB, 1_GiB, 4_GiB});
  const FleetBaseline baseline = *parse_fleet_baseline(text_of(baseline_of(before)), "f");
  EXPECT_EQ(baseline, baseline_of(before));
  const auto failed = [&](const Fleet& now, double tolerance) {
    std::vector<std::string> names;
    for (const Check& check : check_fleet(now, baseline, tolerance))
      if (!check.passed()) names.push_back(check.name);
    return names;
  };
  EXPECT_THAT(failed(before, 0), testing::IsEmpty());
  // Below the job's highest peak, but more than its class had.
  EXPECT_THAT(failed(fleet_of({1_GiB, 2_GiB, 4_GiB}), 0.5), testing::ElementsAre("baseline reserved, ranks 0, 1"));
  EXPECT_THAT(failed(fleet_of({1_GiB, 2_GiB, 4_GiB}), 1), testing::IsEmpty());
  EXPECT_THAT(failed(fleet_of({1_GiB, 1_GiB, 4_GiB, 1_GiB}), 0), testing::ElementsAre("baseline ranks"));
}

TEST(FleetGate, RanksThatOnlyTheBaselineHasAreMissing) {
  const FleetBaseline baseline = baseline_of(fleet_of({1_GiB, 1_GiB, 4_GiB, 4_GiB, 4_GiB}));
  const Fleet first = fleet_of({1_GiB, 1_GiB, 4_GiB});  // one rank of a class is there, two are not
  const FleetGaps gaps = gaps_of(first, {}, baseline);
  EXPECT_THAT(gaps.ranks, testing::ElementsAre(3, 4));
  EXPECT_THAT(gaps.texts, testing::ElementsAre(HasSubstr("ranks 3, 4 are missing: the baseline has")));
  EXPECT_FALSE(check_complete(first, gaps, false).passed());
  const Check allowed = check_complete(first, gaps, true);
  EXPECT_FALSE(allowed.failed());
  EXPECT_FALSE(allowed.judged());
  EXPECT_THAT(allowed.unjudged, HasSubstr("ranks 3, 4 are missing"));
  EXPECT_TRUE(gaps_of(first, {}, std::nullopt).ranks.empty());
  EXPECT_TRUE(gaps_of(first, {}, baseline_of(first)).ranks.empty());
}

TEST(FleetGate, LeaksThatCanNotBeJudgedDoNotPass) {
  std::vector<RankSummary> summaries;
  for (std::uint32_t rank = 0; rank < 4; ++rank) summaries.push_back(rank_of(rank, 1, 1_GiB));
  summaries[1].leaks_not_judged = summaries[2].leaks_not_judged = "not judged: the recording shows no loop of steps";
  const Fleet fleet = *assemble_fleet(summaries, {});
  const FleetGaps gaps = gaps_of(fleet, {.max_leaked = 0_B}, std::nullopt);
  EXPECT_EQ(check_complete(fleet, gaps, false).reason,
            "leaks of ranks 1, 2, not judged: the recording shows no loop of steps");
  EXPECT_TRUE(gaps_of(fleet, {.max_reserved = 1_GiB}, std::nullopt).ranks.empty());  // does not ask for them
}

TEST(FleetGate, AllThatIsMissingIsNamed) {
  std::vector<RankSummary> summaries;
  for (const std::uint32_t rank : {0U, 4U, 5U, 9U}) summaries.push_back(rank_of(rank, 1, 1_GiB));
  summaries[1].status = summaries[2].status = RankStatus::truncated;
  summaries[1].reason = "cut at 7";
  summaries[2].reason = "cut at 9";
  const Fleet fleet = *assemble_fleet(summaries, {});
  const Check check = check_complete(fleet, gaps_of(fleet, {}, baseline_of(fleet)), false);
  EXPECT_EQ(check.reason, "ranks 4, 5 are truncated; rank 4: cut at 7; ranks 1-3, 6-8 are missing: no recording");
  EXPECT_EQ(std::get<RankCount>(check.value).count, 8U);
}

TEST(FleetGate, ABaselineBeyondMeasureIsNoLimit) {
  const FleetBaseline baseline{.classes = {{.ranks = {0}, .peak_reserved = {~std::uint64_t{0}}}}};
  const std::vector<Check> checks = check_fleet(fleet_of({1_GiB}), baseline, 1e300);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_TRUE(checks.front().passed());
}

}  // namespace
}  // namespace memreel
