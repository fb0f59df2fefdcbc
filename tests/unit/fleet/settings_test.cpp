// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet_settings.h"

#include <gmock/gmock.h>

#include "written_ranks.h"

namespace memreel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Twenty ranks on devices of 100 GiB, each a class; rank r reserves 90 - r GiB, the last one 10.
Fleet twenty() {
  std::vector<RankSummary> ranks;
  for (std::uint32_t rank = 0; rank < 20; ++rank) {
    ranks.push_back(rank_of(rank, 1000 + rank, rank == 19 ? 10_GiB : 90_GiB - 1_GiB * rank));
    ranks.back().capacity = 100_GiB;
  }
  return *assemble_fleet(std::move(ranks), {});
}

/// The heaviest classes, of which the first reserves `peaks` with each candidate, and the others 50 GiB.
std::vector<ClassSettings> replays(std::size_t count, const std::vector<Bytes>& peaks) {
  std::vector<ClassSettings> classes(count);
  for (std::size_t k = 0; k < count; ++k) {
    classes[k].recorded = {.peak_reserved = k == 0 ? 90_GiB : 60_GiB};
    for (const Bytes peak : peaks)
      classes[k].outcomes.push_back({.peak_reserved = k == 0 ? peak : 50_GiB, .peak_most = k == 0 ? peak : 50_GiB});
  }
  return classes;
}

TEST(Finals, AreOfWhatHelpsTheHeaviest) {
  const Fleet fleet = twenty();
  const std::vector<std::uint32_t> proposing = proposing_classes(fleet);
  ASSERT_EQ(proposing.size(), 16U);
  const std::vector<std::string> candidates{"none", "some", "most", "worse", "little", "more"};
  const Finals finals =
      finals_of(fleet, candidates, proposing, replays(16, {90_GiB, 80_GiB, 70_GiB, 95_GiB, 85_GiB, 75_GiB}));
  EXPECT_THAT(finals.settings, ElementsAre("most", "more", "some", "little"));
  EXPECT_FALSE(finals.spared[18]) << "twice its 72 GiB do not fit";
  EXPECT_TRUE(finals.spared[19]) << "twice its 10 GiB leave 80 GiB, more than the 30 GiB of the heaviest";
}

TEST(Finals, SpareAllOthersWhereNothingHelps) {
  const Fleet fleet = twenty();
  const std::vector<std::uint32_t> proposing = proposing_classes(fleet);
  const std::vector<std::string> candidates{"none"};
  const Finals finals = finals_of(fleet, candidates, proposing, replays(16, {90_GiB}));
  EXPECT_TRUE(finals.settings.empty());
  EXPECT_EQ(std::ranges::count(finals.spared, true), 4);
}

TEST(Finals, JudgeWhoIsKnownInPart) {
  Fleet fleet = twenty();
  fleet.rows[19].summary.status = RankStatus::truncated;
  const std::vector<std::uint32_t> proposing = proposing_classes(fleet);
  const std::vector<std::string> candidates{"most"};
  EXPECT_FALSE(finals_of(fleet, candidates, proposing, replays(16, {70_GiB})).spared[19]);
}

TEST(Finals, AreAllCandidatesOfFewClasses) {
  const Fleet fleet = *assemble_fleet({rank_of(0, 1, 1_GiB), rank_of(1, 2, 2_GiB)}, {});
  const std::vector<std::string> candidates{"b", "a"};
  const Finals finals = finals_of(fleet, candidates, proposing_classes(fleet), replays(2, {3_GiB, 3_GiB}));
  EXPECT_EQ(finals.settings, candidates);
}

/// Two ranks on devices of 2 GiB, each a class; 125 MiB are beside the framework.
Fleet two() {
  std::vector<RankSummary> ranks{rank_of(0, 1, 1906_MiB), rank_of(1, 2, 1_GiB)};
  for (RankSummary& rank : ranks) {
    rank.capacity = 2_GiB;
    rank.beside = 125_MiB;
  }
  return *assemble_fleet(std::move(ranks), {});
}

ClassSettings replayed(const SettingOutcome& recorded, const SettingOutcome& outcome) {
  return {.recorded = recorded, .outcomes = {outcome}, .witness = {}, .problem = {}};
}

SettingOutcome outcome_of(Bytes peak, std::uint64_t failed = 0) {
  return {.setting = {}, .peak_reserved = peak, .peak_most = peak, .failed_allocations = failed};
}

TEST(CommonSetting, ThatServesMoreIsNotSaidToLowerThePeakNorToFitWhereItDoesNot) {
  const CommonSetting common = choose_setting(
      two(), {"expandable_segments:True"}, 1,
      {replayed(outcome_of(1906_MiB, 7), outcome_of(1956_MiB)), replayed(outcome_of(1_GiB), outcome_of(1_GiB))});
  EXPECT_EQ(common.best, 0U);
  EXPECT_THAT(common.why, HasSubstr("serves 7 requests that fail with the recorded one"));
  EXPECT_THAT(common.why, HasSubstr("the highest peak is 1.91 GiB, which still does not fit"));
  EXPECT_THAT(common.why, Not(HasSubstr("lowers")));
}

TEST(CommonSetting, SaysWhoWasNotReplayed) {
  ClassSettings heaviest;
  heaviest.problem = "its allocator is not PyTorch's";
  const CommonSetting common = choose_setting(two(), {"expandable_segments:True"}, 1,
                                              {heaviest, replayed(outcome_of(1_GiB), outcome_of(512_MiB))});
  EXPECT_EQ(common.not_replayed, 1U);
  EXPECT_EQ(common.decider_before, std::nullopt) << "not 0 B";
  EXPECT_EQ(common.decider_after, std::nullopt);
  EXPECT_THAT(common.why, HasSubstr("replayed on 1 of 2 ranks in 1 of 2 classes; 1 rank was not replayed"));
}

TEST(ProposingClasses, HaveTheOneThatDecides) {
  std::vector<RankSummary> ranks;
  for (std::uint32_t rank = 0; rank < 20; ++rank) {
    ranks.push_back(rank_of(rank, 1000 + rank, rank == 19 ? 10_GiB : 90_GiB - 1_GiB * rank));
    ranks.back().capacity = rank == 19 ? 11_GiB : 100_GiB;
  }
  const Fleet fleet = *assemble_fleet(std::move(ranks), {});
  EXPECT_EQ(proposing_classes(fleet).back(), *fleet.rows[19].klass);
}

}  // namespace
}  // namespace memreel
