// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fleet/written_ranks.h"

namespace memreel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Fleet assembled(std::vector<RankSummary> summaries, FleetOptions options = {}) {
  Result<Fleet> fleet = assemble_fleet(std::move(summaries), options);
  EXPECT_TRUE(fleet) << fleet.error().message();
  return fleet ? *std::move(fleet) : Fleet{};
}

std::vector<std::uint32_t> ranks_of(const Fleet& fleet, const RankClass& c) {
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t row : c.rows) ranks.push_back(fleet.rows[row].rank);
  return ranks;
}

TEST(Fleet, SaysTheSameWhateverTheOrderAndHoweverOften) {
  const RankSummary a = rank_of(0, 1, 1_GiB), b = rank_of(1, 1, 1_GiB), c = rank_of(2, 2, 3_GiB);
  const Fleet once = assembled({a, b, c}), again = assembled({c, a, c, b, a});
  ASSERT_EQ(again.rows.size(), once.rows.size());
  for (std::size_t i = 0; i < once.rows.size(); ++i) EXPECT_EQ(again.rows[i].summary, once.rows[i].summary);
  ASSERT_EQ(again.classes.size(), 2U);
  EXPECT_THAT(ranks_of(again, again.classes[0]), ElementsAre(0, 1));
  EXPECT_EQ(again.rows[again.decides->row].rank, 2U);
}

TEST(Fleet, TheLeastHeadroomDecidesNotTheHighestPeak) {
  RankSummary small = rank_of(0, 1, 10_GiB), large = rank_of(1, 2, 20_GiB);
  small.capacity = 16_GiB;
  large.capacity = 80_GiB;
  small.other = 1_GiB;
  const Fleet fleet = assembled({small, large});
  EXPECT_EQ(fleet.rows[fleet.decides->row].rank, 0U);
  EXPECT_EQ(fleet.rows[0].headroom, std::int64_t{5} << 30);
  EXPECT_THAT(fleet.decides->why, HasSubstr("5.00 GiB of 16.00 GiB left"));
  large.capacity.reset();  // so headroom can't be compared
  EXPECT_EQ(assembled({small, large}).decides->row, 1U);
}

TEST(Fleet, MissingRanksAreRows) {
  const Fleet fleet = assembled({rank_of(1, 1, 1_GiB), rank_of(4, 1, 1_GiB)}, {.world_size = 6});
  EXPECT_THAT(fleet.missing, ElementsAre(0, 2, 3, 5));
  ASSERT_EQ(fleet.rows.size(), 6U);
  EXPECT_EQ(fleet.rows[3].summary.status, RankStatus::missing);
  EXPECT_FALSE(fleet.complete());
  EXPECT_EQ(text_of_ranks(fleet.missing), "0, 2, 3, 5");
  EXPECT_EQ(text_of_ranks({0, 1, 2, 5, 7, 8, 9}), "0-2, 5, 7-9");
}

TEST(Fleet, TheWorldIsAsLargeAsTheLauncherSaid) {
  RankSummary early = rank_of(0, 1, 1_GiB), late = rank_of(0, 1, 1_GiB);
  late.file = "/job/restarted/rank0.reel";
  late.begin = Nanoseconds{3000};
  late.end = Nanoseconds{4000};
  early.identity.world_size = 8;
  late.identity.world_size = 4;  // of an elastic job
  EXPECT_EQ(assembled({early}).world_size, 8U);
  const Fleet fleet = assembled({early, late});
  EXPECT_EQ(fleet.world_size, 4U);
  EXPECT_THAT(fleet.missing, ElementsAre(1, 2, 3));
}

TEST(Fleet, WorkersOfATaskAreNoDuplicates) {
  const auto worker = [](std::uint64_t process, Bytes peak) {
    RankSummary s = rank_of(0, 1, peak);  // all have the variables that Slurm gave to the task that started them
    s.file = "/job/" + std::to_string(process);
    s.identity.process = process;
    s.identity.world_size = 2;
    return s;
  };
  const Fleet fleet = assembled({worker(11, 4_GiB), worker(12, 4_GiB), worker(13, 1_GiB)});
  EXPECT_EQ(fleet.world_size, 3U);
  EXPECT_EQ(fleet.judged(), 3U);
  EXPECT_TRUE(fleet.rows[0].rank_assumed);

  // A rank's helper process is not another rank; nor is what ran before it.
  RankSummary before = worker(14, 4_GiB);
  before.begin = Nanoseconds{1};
  before.end = Nanoseconds{500};
  const Fleet alone = assembled({worker(11, 40_GiB), worker(12, 1_GiB), before});
  EXPECT_EQ(alone.judged(), 1U);
  EXPECT_EQ(alone.rows[0].summary.file, "/job/11");
  EXPECT_FALSE(alone.rows[0].rank_assumed);
}

TEST(Fleet, WhatStartsTheRanksIsNone) {
  RankSummary launcher;
  launcher.file = "/job/none.reel";
  const Fleet fleet = assembled({rank_of(0, 1, 1_GiB), launcher, rank_of(1, 1, 1_GiB)});
  EXPECT_EQ(fleet.world_size, 2U);
  EXPECT_TRUE(fleet.complete());
  EXPECT_THAT(fleet.launchers, ElementsAre("/job/none.reel"));
  EXPECT_EQ(assembled({launcher}).rows.size(), 1U);  // no other source for its rank
}

// Snapshots of a ring every so many steps: neighbours overlap, others do not.
TEST(Fleet, WhichRecordingOfARankIsJudgedDoesNotDependOnNames) {
  std::vector<std::size_t> order{0, 1, 2};
  do {
    std::vector<RankSummary> snapshots;
    for (std::size_t i = 0; i < order.size(); ++i) {
      RankSummary s = rank_of(0, 1, Bytes{order[i] + 1});
      s.file = "/job/rank0_step" + std::to_string(i) + ".pickle";
      s.begin = Nanoseconds{static_cast<std::int64_t>(60 * order[i])};
      s.end = s.begin + Nanoseconds{100};
      s.allocations = 3000 - 1000 * order[i];
      snapshots.push_back(std::move(s));
    }
    // Of the latest one and the one before, which it overlaps, the one before has more requests.
    EXPECT_EQ(assembled(snapshots).rows.front().summary.peak_reserved, 2_B);
  } while (std::ranges::next_permutation(order).found);
}

// Only its second GPU was sampled, so the limit of the first is not known.
TEST(Fleet, TheLimitOfAFailedRankIsThatOfItsTightestGpu) {
  RankSummary s = rank_of(0, 1, 8_GiB);
  s.failed_allocations = 1;
  s.devices = {{.device = 0, .peak_reserved = 8_GiB}, {.device = 1, .peak_reserved = 4_GiB, .capacity = 6_GiB}};
  EXPECT_THAT(assembled({s}).decides->why, HasSubstr("it reserved 4.00 GiB at its peak, 6.00 GiB is the limit"));
}

TEST(Fleet, DirectoriesSayThePlaceOnTheMesh) {
  const auto placed = [](std::uint32_t stage, std::uint32_t replica) {
    RankSummary s = rank_of(0, 1, 1_GiB);
    s.file = "/job/" + std::to_string(stage) + std::to_string(replica);
    s.identity.rank.reset();
    s.identity.coordinates = {{"dp", replica}, {"pp", stage}};
    return s;
  };
  const Fleet fleet = assembled({placed(1, 0), placed(0, 1), placed(1, 1)}, {.mesh = *Mesh::parse("pp=2,dp=2")});
  EXPECT_THAT(fleet.missing, ElementsAre(0));
  EXPECT_EQ(fleet.rows[1].summary.file, "/job/01");
  EXPECT_EQ(fleet.rows[2].summary.file, "/job/10");
  EXPECT_FALSE(fleet.rows[1].rank_assumed);
}

TEST(Fleet, OfTwoRecordingsTheCompleteOneIsJudgedThenTheLater) {
  RankSummary first = rank_of(0, 1, 1_GiB), second = rank_of(0, 1, 2_GiB);
  second.file = "/job/again/rank0.reel";
  second.begin = Nanoseconds{5000};
  second.end = Nanoseconds{6000};
  EXPECT_EQ(assembled({first, second}).imbalance.max, 2_GiB);
  second.status = RankStatus::truncated;
  const Fleet fleet = assembled({first, second});
  EXPECT_EQ(fleet.imbalance.max, 1_GiB);
  EXPECT_EQ(fleet.rows[1].summary.status, RankStatus::duplicate);
  EXPECT_THAT(fleet.rows[1].summary.reason, HasSubstr("rank0.reel is judged"));
}

TEST(Fleet, ARankThatLostEventsDoesNotDecideInSilence) {
  RankSummary s = rank_of(0, 1, 2_GiB);
  s.status = RankStatus::overflowed;
  EXPECT_THAT(assembled({s, rank_of(1, 1, 1_GiB)}).decides->why, HasSubstr("incomplete"));
}

/// Nine tenths of the requests are those of `program`.
RankSummary nearly(std::uint32_t rank, std::uint64_t program, Bytes reserved) {
  RankSummary s = rank_of(rank, 1000 + rank, reserved);
  s.requests.sketch = {{program, 90}, {1000 + rank, 10}};
  return s;
}

TEST(Fleet, AnOutlierIsComparedWithTheClassThatItIsMostLike) {
  std::vector<RankSummary> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) ranks.push_back(rank_of(rank, 1, 4_GiB));
  ranks.push_back(nearly(3, 1, 6_GiB));
  for (std::uint32_t rank = 4; rank < 7; ++rank) ranks.push_back(rank_of(rank, 2, 8_GiB));
  const Fleet fleet = assembled(ranks);
  ASSERT_EQ(fleet.outliers.size(), 1U);
  EXPECT_EQ(fleet.rows[fleet.outliers[0].row].rank, 3U);
  EXPECT_EQ(fleet.outliers[0].bytes, std::int64_t{2} << 30);
  EXPECT_LT(fleet.rows[fleet.outliers[0].neighbour].rank, 3U);
  EXPECT_EQ(fleet.classes[1].deviates_from, 0U);
}

TEST(Fleet, HeavierStagesAndRanksOfTheirOwnDataAreNoOutliers) {
  std::vector<RankSummary> ranks;
  for (std::uint32_t rank = 0; rank < 8; ++rank)
    ranks.push_back(rank_of(rank, rank < 4 ? 1 : 2, rank < 4 ? 4_GiB : 9_GiB));
  EXPECT_THAT(assembled(ranks).outliers, IsEmpty());
  ranks.clear();
  for (std::uint32_t rank = 0; rank < 8; ++rank)
    ranks.push_back(rank_of(rank, rank, 4_GiB + Bytes{rank * 10'000'000ULL}));
  EXPECT_THAT(assembled(ranks).outliers, IsEmpty());
  ranks[5].peak_reserved = 9_GiB;
  const Fleet fleet = assembled(ranks);
  ASSERT_EQ(fleet.outliers.size(), 1U);
  EXPECT_EQ(fleet.rows[fleet.outliers[0].row].rank, 5U);
}

TEST(Fleet, AHeavyStageAndALeakingReplicaDifferByAxis) {
  const auto on = [](std::vector<Bytes> peaks) {
    std::vector<RankSummary> ranks;
    for (std::uint32_t rank = 0; rank < 4; ++rank) ranks.push_back(rank_of(rank, rank, peaks[rank]));
    const Fleet fleet = assembled(ranks, {.mesh = *Mesh::parse("pp=2,dp=2")});
    return std::pair(fleet.imbalance.axes[0].share_of_variance, fleet.imbalance.axes[1].share_of_variance);
  };
  EXPECT_EQ(on({2_GiB, 2_GiB, 1_GiB, 1_GiB}), std::pair(1.0, 0.0));
  EXPECT_EQ(on({2_GiB, 1_GiB, 2_GiB, 1_GiB}), std::pair(0.0, 1.0));
}

// A folder named job-tp9, or one made by mkdtemp(), is no mesh.
TEST(Fleet, WhatAllPathsHaveInCommonIsNoAxis) {
  for (const std::uint32_t at : {0U, 1U, 9U}) {
    std::vector<RankSummary> ranks{rank_of(0, 1, 1_GiB), rank_of(1, 2, 3_GiB)};
    for (RankSummary& rank : ranks) rank.identity.coordinates = {{.axis = "tp", .at = at}};
    const Fleet fleet = assembled(ranks);
    EXPECT_THAT(fleet.imbalance.axes, IsEmpty()) << at;
    for (const FleetRow& row : fleet.rows) EXPECT_THAT(row.summary.identity.coordinates, IsEmpty()) << at;
  }
}

TEST(Fleet, ReplicasWhoseThreadsFreeEarlierOrLaterAreOneClass) {
  std::vector<RankSummary> ranks{rank_of(0, 1, 1_GiB), rank_of(1, 2, 3_GiB), rank_of(2, 3, 2_GiB),
                                 rank_of(3, 4, 1_GiB)};
  for (RankSummary& rank : ranks) {
    rank.requests.untimed = 7;
    rank.requests.sketch = {{10, 95}, {100 + rank.requests.whole, 5}};
  }
  ranks[3].requests.untimed = 8;  // it leaks
  const Fleet fleet = assembled(ranks);
  ASSERT_EQ(fleet.classes.size(), 2U);
  EXPECT_THAT(ranks_of(fleet, fleet.classes[0]), ElementsAre(0, 1, 2));
  EXPECT_EQ(fleet.classes[0].peak_reserved, 3_GiB);
  EXPECT_EQ(fleet.rows[fleet.classes[0].heaviest].rank, 1U);
  EXPECT_EQ(fleet.rows[3].klass, 1U);
  EXPECT_EQ(fleet.classes[1].deviates_from, 0U);
  for (RankSummary& rank : ranks) rank.requests.sketch = {{rank.requests.whole, 100}};
  EXPECT_EQ(assembled(ranks).classes.size(), 4U) << "of other lives altogether";
}

TEST(Fleet, WhatExceedsTheCapacityFailsFirstThenWhatLeaks) {
  RankSummary steady = rank_of(0, 1, 7_GiB), leaking = rank_of(1, 2, 4_GiB);
  leaking.leaks = {{.verdict = "leak", .bytes = 1_GiB, .growth_bytes_per_step = double(1 << 28)}};
  const Fleet slow = assembled({steady, leaking}, {.capacity = 8_GiB});
  ASSERT_TRUE(slow.decides->fails_first);
  EXPECT_EQ(slow.rows[*slow.decides->fails_first].rank, 1U);
  EXPECT_THAT(slow.decides->fails_why, HasSubstr("16 steps"));
  const Fleet now = assembled({steady, leaking}, {.capacity = 6_GiB});
  EXPECT_EQ(now.rows[*now.decides->fails_first].rank, 0U);
  EXPECT_LT(*now.rows[0].headroom, 0);
}

TEST(Fleet, RecordingsThatKnowNoRankAreNumbered) {
  RankSummary a = rank_of(7, 1, 1_GiB), b = rank_of(8, 1, 1_GiB), c = rank_of(0, 1, 1_GiB);
  a.identity.rank.reset();
  b.identity.rank.reset();
  const Fleet fleet = assembled({a, b, c});
  EXPECT_EQ(fleet.world_size, 3U);
  EXPECT_TRUE(fleet.rows[1].rank_assumed);
  EXPECT_FALSE(fleet.rows[0].rank_assumed);
}

TEST(Fleet, RefusedRequestsDecide) {
  RankSummary heavy = rank_of(0, 1, 9_GiB), failed = rank_of(1, 2, 4_GiB), late = rank_of(2, 3, 4_GiB);
  failed.failed_allocations = 22;
  failed.first_failure = 64_MiB;
  failed.first_failure_time = Nanoseconds{500};
  late.failed_allocations = 1;
  late.first_failure_time = Nanoseconds{900};
  const Fleet fleet = assembled({heavy, failed, late, rank_of(3, 4, 1_GiB)}, {.capacity = 9_GiB});
  EXPECT_EQ(fleet.decides->row, 1U);
  EXPECT_THAT(fleet.decides->failed, ElementsAre(1, 2));
  EXPECT_THAT(fleet.decides->near, ElementsAre(0));
  EXPECT_THAT(fleet.decides->why, HasSubstr("22 requests were refused, the first of 64.00 MiB"));
  EXPECT_EQ(fleet.decides->fails_first, 1U);
}

TEST(Fleet, LowerBoundsAreNotComparedAsValues) {
  std::vector<RankSummary> ranks;
  for (std::uint32_t rank = 0; rank < 5; ++rank) ranks.push_back(rank_of(rank, 1, 4_GiB));
  ranks.push_back(nearly(5, 1, 1_GiB));
  ranks.back().status = RankStatus::truncated;
  const Fleet fleet = assembled(ranks, {.capacity = 8_GiB});
  EXPECT_THAT(fleet.decides->unsure, ElementsAre(5));
  EXPECT_THAT(fleet.outliers, IsEmpty());
  EXPECT_EQ(fleet.imbalance.mean, 4_GiB);
  ranks.back().peak_reserved = 7_GiB;
  const Fleet heavy = assembled(ranks, {.capacity = 8_GiB});
  EXPECT_EQ(heavy.decides->row, 5U);
  EXPECT_THAT(heavy.decides->why, HasSubstr("at most 1.00 GiB of 8.00 GiB left"));
  ASSERT_EQ(heavy.outliers.size(), 1U);
  EXPECT_THAT(heavy.outliers[0].why, HasSubstr("at least 3.00 GiB more"));
}

TEST(Fleet, ADeviceOfUnknownSizeIsSaidWhereHeadroomIsNotCompared) {
  std::vector<RankSummary> ranks{rank_of(0, 1, 1_GiB), rank_of(1, 2, 5_GiB), rank_of(2, 3, 2_GiB)};
  ranks[0].capacity = 2_GiB;
  ranks[2].capacity = 4_GiB;
  const Fleet fleet = assembled(ranks);
  EXPECT_EQ(fleet.decides->row, 1U);
  EXPECT_THAT(fleet.decides->why, HasSubstr("the size of the device of rank 1 is not known (--capacity)"));
}

TEST(Fleet, EachGpuOfAProcessHasItsHeadroom) {
  RankSummary s = rank_of(0, 1, 10_GiB);
  s.capacity = 80_GiB;
  s.devices = {{.device = 3, .peak_reserved = 9_GiB, .other = 1_GiB, .capacity = 16_GiB}};
  const Fleet fleet = assembled({s, rank_of(1, 2, 1_GiB)});
  EXPECT_EQ(fleet.rows[0].headroom, std::int64_t{6} << 30);
  EXPECT_EQ(fleet.rows[0].tightest, 3);
}

TEST(Fleet, RanksOnOneGpuShareItsMemory) {
  const auto on_gpu = [](std::uint32_t rank, Bytes other) {
    RankSummary s = rank_of(rank, 1, 5_GiB);
    s.identity.host = "node7";
    s.capacity = 16_GiB;
    s.beside = other;
    return s;
  };
  const Fleet fleet = assembled({on_gpu(0, 1_GiB), on_gpu(1, 5_GiB)});
  EXPECT_EQ(fleet.rows[0].headroom, std::int64_t{6} << 30);  // 16 less both, though its own samples came before
  EXPECT_THAT(fleet.rows[0].shares, ElementsAre(1));
  EXPECT_THAT(assembled({on_gpu(0, 0_B), on_gpu(1, 0_B)}).rows[0].shares, IsEmpty());  // each sees only its own GPU
}

TEST(Fleet, AStageIsComparedWithItself) {
  std::vector<RankSummary> ranks;
  for (std::uint32_t rank = 0; rank < 4; ++rank) ranks.push_back(rank_of(rank, 1, 4_GiB));
  for (std::uint32_t rank = 4; rank < 6; ++rank) ranks.push_back(nearly(rank, 1, 6_GiB));
  EXPECT_EQ(assembled(ranks).outliers.size(), 2U);
  EXPECT_THAT(assembled(ranks, {.mesh = *Mesh::parse("pp=3,dp=2")}).outliers, IsEmpty());
}

RankSummary of_job(const std::string& job, std::uint32_t rank, Bytes reserved) {
  RankSummary s = rank_of(rank, rank, reserved);
  s.file = "/job/" + job + "rank" + std::to_string(rank) + ".reel";
  s.identity.job = job;
  s.identity.process = 100 + rank + 1000 * static_cast<std::uint64_t>(job.front());
  return s;
}

std::vector<Fleet> jobs_of_recordings(std::vector<RankSummary> summaries, const FleetOptions& options = {}) {
  Result<std::vector<Fleet>> jobs = assemble_jobs(std::move(summaries), options);
  EXPECT_TRUE(jobs) << jobs.error().message();
  return jobs ? *std::move(jobs) : std::vector<Fleet>{};
}

TEST(Fleet, TwoJobsAreTwoAnswers) {
  std::vector<RankSummary> both{of_job("100", 0, 1_GiB), of_job("100", 1, 2_GiB), of_job("200", 0, 1_GiB)};
  both.push_back(of_job("200", 1, 2_GiB));
  both.push_back(of_job("200", 3, 2_GiB));
  std::vector<Fleet> jobs = jobs_of_recordings(both);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].job, "200");
  EXPECT_THAT(jobs[0].missing, ElementsAre(2));
  EXPECT_TRUE(jobs[1].complete());
  EXPECT_EQ(jobs_of_recordings(both, {.job = "100"}).front().world_size, 2U);
  EXPECT_THAT(assemble_jobs(both, {.job = "300"}).error().message(), HasSubstr("100, 200"));
  // Without ids, jobs that ran at the same time differ in their names.
  for (RankSummary& s : both) {
    s.file = "/job/" + std::string(s.identity.job == "100" ? "a" : "b") + s.file.substr(8);
    s.identity.job.clear();
  }
  jobs = jobs_of_recordings(both);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[1].world_size, 2U);
  EXPECT_FALSE(jobs[0].rows[0].rank_assumed);
}

TEST(Fleet, FoldersOfHostsAndAttemptsAreNoJobs) {
  const auto in = [](const std::string& folder, std::uint32_t rank, std::uint64_t process) {
    RankSummary s = rank_of(rank, 1, 1_GiB);
    s.file = "/job/" + folder + "/rank" + std::to_string(rank) + ".reel";
    s.identity.world_size = 4;
    s.identity.host = folder;
    s.identity.process = process;
    return s;
  };
  RankSummary earlier = in("old", 1, 9);
  earlier.begin -= std::chrono::seconds(100);
  earlier.end -= std::chrono::seconds(100);
  // Rank 0 of another run at the same time tells that there are two jobs.
  std::vector<Fleet> jobs = jobs_of_recordings(
      {in("node0", 0, 1), in("node0", 1, 2), in("node1", 2, 3), in("node1", 3, 4), in("debug", 0, 5), earlier});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_TRUE(jobs[0].complete());
  EXPECT_EQ(jobs[0].rows.size(), 5U);
  EXPECT_EQ(jobs[1].missing.size(), 3U);
}

TEST(Fleet, WhatStatesNoWorldIsOfAJobThatLacksIt) {
  const auto of_world = [](std::uint32_t world, std::uint32_t rank) {
    RankSummary s = rank_of(rank, 1, 1_GiB);
    s.file = "/job/" + std::to_string(world) + "rank" + std::to_string(rank) + ".reel";
    s.identity.world_size = world;
    s.identity.process = 10 * world + rank;
    return s;
  };
  RankSummary snapshot = of_world(4, 2);
  snapshot.identity.world_size.reset();
  const std::vector<Fleet> jobs =
      jobs_of_recordings({of_world(4, 0), of_world(4, 1), snapshot, of_world(4, 3), of_world(2, 0), of_world(2, 1)});
  ASSERT_EQ(jobs.size(), 2U);
  for (const Fleet& job : jobs) EXPECT_TRUE(job.complete()) << job.job;
}

TEST(Fleet, WhatStatesNoJobIsOfTheOneThatLacksIt) {
  std::vector<RankSummary> both{of_job("100", 0, 1_GiB), of_job("100", 1, 2_GiB), of_job("200", 0, 1_GiB)};
  RankSummary damaged{.file = "/job/200rank1.reel", .status = RankStatus::damaged, .reason = "nothing of the kind"};
  damaged.identity.rank = 1;
  both.push_back(damaged);
  for (const Fleet& job : jobs_of_recordings(both)) EXPECT_EQ(job.missing.size(), job.job == "200" ? 1U : 0U);
}

TEST(Fleet, ADumpAndItsRecordingAreOneRank) {
  RankSummary whole = rank_of(0, 1, 2_GiB), dump = rank_of(0, 1, 1_GiB), other = rank_of(0, 1, 2_GiB);
  whole.file = "/job/run.reel";
  dump.file = "/job/run-dump-1.reel";
  other.file = "/job/second.reel";
  dump.status = RankStatus::overflowed;
  for (RankSummary* const s : {&whole, &dump, &other}) {
    s->identity = {.host = "node7", .process = 4711};
    s->identity.rank.reset();
  }
  other.identity.process = 4712;
  const Fleet fleet = jobs_of_recordings({whole, dump, other}).front();
  EXPECT_EQ(fleet.world_size, 2U);
  EXPECT_EQ(fleet.rows[0].summary.file, "/job/run.reel");
  EXPECT_EQ(fleet.rows[1].summary.status, RankStatus::duplicate);
}

TEST(Fleet, HeadersComeBeforeNames) {
  RankSummary a = rank_of(1, 1, 1_GiB), b = rank_of(0, 1, 1_GiB), c = rank_of(2, 1, 1_GiB);
  a.file = "/job/w0.reel";
  b.file = "/job/w1.reel";
  c.file = "/job/w2.reel";
  c.identity.rank.reset();
  const Fleet fleet = jobs_of_recordings({a, b, c}).front();
  EXPECT_EQ(fleet.rows[1].summary.file, "/job/w0.reel");
  EXPECT_TRUE(fleet.rows[2].rank_assumed);  // the names count otherwise than the headers
  RankSummary large = rank_of(0, 1, 1_GiB);
  large.identity.world_size = 8;
  EXPECT_THAT(assemble_fleet({large}, {.world_size = 6}).error().message(), HasSubstr("one of 8 ranks"));
  EXPECT_FALSE(assemble_fleet({large}, {.mesh = *Mesh::parse("dp=3,pp=2")}));
}

TEST(Fleet, RefusesAWorldThatDoesNotHold) {
  EXPECT_FALSE(assemble_fleet({rank_of(4, 1, 1_GiB)}, {.world_size = 4}));
  EXPECT_FALSE(assemble_fleet({rank_of(0, 1, 1_GiB)}, {.world_size = 3, .mesh = *Mesh::parse("pp=2")}));
  EXPECT_FALSE(assemble_fleet({rank_of(4'000'000, 1, 1_GiB)}, {}));
}

TEST(Fleet, NothingReadableIsNoAnswer) {
  RankSummary s{.file = "/job/rank0.reel", .status = RankStatus::hostile, .reason = "it crashed"};
  s.identity.rank = 0;
  const Fleet fleet = assembled({s});
  EXPECT_FALSE(fleet.decides);
  EXPECT_THAT(fleet.missing, ElementsAre(0));
}

}  // namespace
}  // namespace memreel
