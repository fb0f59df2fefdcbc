// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace memreel {
namespace {

std::vector<int> ranks_in(const std::vector<std::filesystem::path>& names) {
  std::vector<int> ranks;
  for (const auto& rank : ranks_in_names(names)) ranks.push_back(rank ? static_cast<int>(*rank) : -1);
  return ranks;
}

TEST(RankNames, AreThoseThatTheSetMakesOne) {
  using testing::ElementsAre;
  EXPECT_THAT(ranks_in({"/job/rank3.reel"}), ElementsAre(3));
  EXPECT_THAT(ranks_in({"/job/Rank_12/snapshot.pickle", "/job/rank-0/snapshot.pickle"}), ElementsAre(12, 0));
  EXPECT_THAT(ranks_in({"/job/rank0.reel", "/job/rank_02.pickle.xz", "/job/rank-1.xplane.pb"}), ElementsAre(0, 2, 1));
  EXPECT_THAT(ranks_in({"/job/0.reel", "/job/7.reel", "/job/3.reel", "/job/4.reel", "/job/5.reel"}),
              ElementsAre(0, 7, 3, 4, 5));
  EXPECT_THAT(ranks_in({"/j/gpt_r00.pickle", "/j/gpt_r01.pickle", "/j/gpt_r02.pickle"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(ranks_in({"/j/worker1.pickle", "/j/worker0.pickle"}), ElementsAre(1, 0));
  EXPECT_THAT(ranks_in({"/j/snapshot_w0_step_1000.pickle", "/j/snapshot_w1_step_1000.pickle"}), ElementsAre(0, 1));
  EXPECT_THAT(ranks_in({"/j/lora_rank64_worker0.pickle", "/j/lora_rank64_worker1.pickle"}), ElementsAre(0, 1));
  EXPECT_THAT(ranks_in({"/j/rank0_step10.pickle", "/j/rank0_step20.pickle", "/j/rank1_step10.pickle"}),
              ElementsAre(0, 0, 1));
  EXPECT_THAT(ranks_in({"/j/a_20261126-100947_p0.pickle", "/j/a_20261126-100948_p1.pickle"}), ElementsAre(0, 1));
  EXPECT_THAT(ranks_in({"/j/memory.rank1.pickle.xz", "/j/memory.rank0.pickle"}), ElementsAre(1, 0));
  EXPECT_THAT(ranks_in({"/j/n1.site.org-rank2.pkl.bz2", "/j/n0.site.org-rank0.pkl", "/j/n0.site.org-rank1.pkl"}),
              ElementsAre(2, 0, 1));
  EXPECT_THAT(ranks_in({"/j/memreel-rank5-node7-4711-dump-1.pickle"}), ElementsAre(5));
}

TEST(RankNames, AreNotThoseOfADirectoryThatAllShare) {
  using testing::ElementsAre;
  EXPECT_THAT(ranks_in({"/j/run-r2/0.reel", "/j/run-r2/1.reel", "/j/run-r2/none.reel"}), ElementsAre(0, 1, -1));
  EXPECT_THAT(ranks_in({"/j/rank2/rank0.pickle", "/j/rank2/rank1.pickle", "/j/rank2/x/a.reel"}), ElementsAre(0, 1, -1));
  EXPECT_THAT(ranks_in({"/j/r9/rank0/a.pickle", "/j/r9/rank1/a.pickle", "/j/r9/b.pickle"}), ElementsAre(0, 1, -1));
  EXPECT_THAT(ranks_in({"/j/rank3/a.pickle", "/j/rank3/b.pickle"}), ElementsAre(3, 3));  // nothing else has one
  EXPECT_THAT(ranks_in({"/j/r0/rank1/a.pickle", "/j/r01/rank0/a.pickle"}), ElementsAre(1, 0));
}

TEST(RankNames, AreNoDatesHostsProcessesStepsOrRanksOfMatrices) {
  const auto none = testing::Each(-1);
  EXPECT_THAT(ranks_in({"/j/node01_Mar_18_12_00_00.pickle", "/j/node02_Mar_18_12_00_01.pickle"}), none);
  EXPECT_THAT(ranks_in({"/j/node01_Mar_18_12_00_05.pickle", "/j/node02_Mar_18_12_00_05.pickle"}), none);
  EXPECT_THAT(ranks_in({"/j/memreel-node7-4711-dump-1.pickle", "/j/memreel-node7-4712-dump-1.pickle"}), none);
  EXPECT_THAT(ranks_in({"/j/lora_rank8.pickle", "/j/lora_rank16.pickle", "/j/lora_rank64.pickle"}), none);
  EXPECT_THAT(ranks_in({"/j/lora_rank64.pickle"}), none);
  EXPECT_THAT(ranks_in({"/j/0.pickle", "/j/1000.pickle", "/j/2000.pickle"}), none);
  EXPECT_THAT(ranks_in({"/j/5.reel"}), none);
  EXPECT_THAT(ranks_in({"/j/n0_g0.pkl", "/j/n0_g1.pkl", "/j/n1_g0.pkl", "/j/n1_g1.pkl"}), none);
  EXPECT_THAT(ranks_in({"/j/train.reel", "/j/rank99999999.reel"}), none);
}

TEST(RankNames, TakeAPatternOfTheUser) {
  const Result<RankPattern> pattern = RankPattern::parse("worker-([0-9]+)");
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->rank_of("/job/rank3/worker-7.reel"), 7U);
  EXPECT_EQ(pattern->rank_of("/job/rank3.reel"), std::nullopt);
}

TEST(RankNames, AreBytesThatMatchInEitherCase) {
  const Result<RankPattern> pattern = RankPattern::parse("W\xF6rker.([0-9]+)");
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->rank_of("/job/w\xF6RKER\xFF"
                             "7.reel"),
            7U);
}

TEST(RankNames, TakeNoLongerForAPatternThatBacktracks) {
  const std::filesystem::path name(std::string(4'096, 'a'));
  std::string groups;
  for (int i = 0; i < 60; ++i) groups += "(.*)";
  for (const std::string& text : {groups + "x", std::string("((a*)*)*b"), std::string("(a?){400}b")}) {
    const Result<RankPattern> pattern = RankPattern::parse(text);
    ASSERT_TRUE(pattern) << text;
    EXPECT_EQ(pattern->rank_of(name), std::nullopt);
  }
}

std::string problem_of(const std::string& text) {
  const Result<RankPattern> pattern = RankPattern::parse(text);
  return pattern ? "" : pattern.error().message();
}

TEST(RankNames, SayWhatIsWrongWithAPattern) {
  EXPECT_THAT(problem_of(std::string(257, 'a')), testing::HasSubstr("longer than 256 bytes"));
  EXPECT_THAT(problem_of("worker"), testing::HasSubstr("parentheses"));
  EXPECT_THAT(problem_of("(a)(?!b)"), testing::HasSubstr("look-ahead"));
  for (const char* const pattern : {"(", "[a", "(*)", "(a{2,1})", "(a\\", "((a{900}){900})", "(a)\\1"})
    EXPECT_THAT(problem_of(pattern), testing::HasSubstr("not valid")) << pattern;
}

TEST(Identity, IsInNamesThatMemreelGives) {
  const Identity identity = identify({}, "/job/memreel-rank3-gpu-node7-4711-dump-2.pickle", {});
  EXPECT_EQ(identity.host, "gpu-node7");
  EXPECT_EQ(identity.process, 4711U);
  EXPECT_EQ(identify({.host = "a", .process = 12}, "/job/memreel-b-4711.reel", {}).process, 12U);
}

Identity identity_in(Variables environment, const char* file = "/job/train.reel", const RankPattern& pattern = {}) {
  return identify({.environment = std::move(environment)}, file, pattern);
}

TEST(Identity, TorchrunWithoutAnIdNamesNoJob) { EXPECT_EQ(identity_in({{"TORCHELASTIC_RUN_ID", "none"}}).job, ""); }

TEST(Identity, IsWhatTheLauncherSaid) {
  const Identity torchrun = identity_in({{"RANK", "5"},
                                         {"WORLD_SIZE", "16"},
                                         {"LOCAL_RANK", "1"},
                                         {"TORCHELASTIC_RUN_ID", "run7"},
                                         {"TORCHELASTIC_RESTART_COUNT", "2"}},
                                        "/job/rank9.reel");
  EXPECT_EQ(torchrun.rank, 5U);
  EXPECT_EQ(torchrun.world_size, 16U);
  EXPECT_EQ(torchrun.local_rank, 1U);
  EXPECT_EQ(torchrun.job, "run7");
  EXPECT_EQ(torchrun.attempt, 2U);
  EXPECT_EQ(
      identity_in({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}})
          .rank,
      1U);
  EXPECT_EQ(identity_in({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}).world_size, 4U);
  EXPECT_EQ(identity_in({{"PMIX_RANK", "2"}}).rank, 2U);
  const Identity slurm = identity_in({{"SLURM_PROCID", "3"},
                                      {"SLURM_NTASKS", "8"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_JOB_ID", "4712"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_ARRAY_JOB_ID", "4711"},
                                      {"SLURM_ARRAY_TASK_ID", "1"},
                                      {"SLURM_RESTART_COUNT", "1"}});
  EXPECT_EQ(slurm.rank, 3U);
  EXPECT_EQ(slurm.local_rank, 0U);
  EXPECT_EQ(slurm.job, "4711_1");
  EXPECT_EQ(slurm.attempt, 1U);
  EXPECT_EQ(identity_in({{"JOB_COMPLETION_INDEX", "6"}, {"JOB_COMPLETIONS", "8"}}).rank, 6U);
}

TEST(Identity, ComesFromTheInnerLauncher) {
  const Identity identity = identity_in({{"SLURM_PROCID", "1"},
                                         {"SLURM_NTASKS", "2"},
                                         {"SLURM_JOB_ID", "4711"},
                                         {"SLURM_STEP_ID", "0"},
                                         {"RANK", "11"},
                                         {"WORLD_SIZE", "16"}});
  EXPECT_EQ(identity.rank, 11U);
  EXPECT_EQ(identity.world_size, 16U);
  EXPECT_EQ(identity.job, "4711");
}

TEST(Identity, ALauncherOfOneProcessSaysNothingOfItsChildren) {
  EXPECT_EQ(identity_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}).rank, std::nullopt);
}

TEST(Identity, ABatchScriptIsNoneOfItsTasks) {
  const Identity identity = identity_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "4711"}});
  EXPECT_EQ(identity.rank, std::nullopt);
  EXPECT_EQ(identity.job, "4711");
}

TEST(Identity, APatternOfTheUserComesFirst) {
  const Identity identity =
      identity_in({{"RANK", "5"}, {"WORLD_SIZE", "16"}}, "/job/worker-7.reel", *RankPattern::parse("worker-([0-9]+)"));
  EXPECT_EQ(identity.rank, 7U);
  EXPECT_EQ(identity.world_size, std::nullopt);  // from another numbering
}

TEST(Identity, StrangeValuesSayNothing) {
  for (const char* const rank : {"", "-1", "3x", " 3", "99999999999", "4000000000", "1048576"})
    EXPECT_EQ(identity_in({{"RANK", rank}, {"WORLD_SIZE", "16"}}).rank, std::nullopt) << rank;
  for (const char* const world : {"", "0", "3", "-1", "4000000000"})
    EXPECT_EQ(identity_in({{"RANK", "3"}, {"WORLD_SIZE", world}}).world_size, std::nullopt) << world;
}

TEST(Identity, NamesFitALine) {
  const std::string endless(1'000'000, 'x');
  const Identity identity = identify({.host = endless, .environment = {{"SLURM_JOB_ID", endless}}}, "/job/x.reel", {});
  EXPECT_LT(identity.host.size(), 120U);
  EXPECT_LT(identity.job.size(), 120U);
}

TEST(Mesh, FindsTheRankOfAPlace) {
  const Result<Mesh> mesh = Mesh::parse("pp=4,dp=2,tp=3");
  ASSERT_TRUE(mesh);
  for (std::uint32_t rank = 0; rank < mesh->size(); ++rank) EXPECT_EQ(mesh->rank_at(mesh->coordinates(rank)), rank);
  EXPECT_EQ(mesh->rank_at(coordinates_in("/job/tp2_dp1_pp3/x.pickle")), 23U);
  EXPECT_EQ(mesh->rank_at(coordinates_in("/job/pp3_dp1/x.pickle")), std::nullopt);
  EXPECT_EQ(mesh->rank_at(coordinates_in("/job/pp4_dp1_tp0/x.pickle")), std::nullopt);
}

TEST(Mesh, CountsFromTheSlowestAxis) {
  const Result<Mesh> mesh = Mesh::parse("pp=4,dp=2,tp=3");
  ASSERT_TRUE(mesh);
  EXPECT_EQ(mesh->size(), 24U);
  EXPECT_THAT(mesh->coordinates(11),
              testing::ElementsAre(Coordinate{"pp", 1}, Coordinate{"dp", 1}, Coordinate{"tp", 2}));
}

TEST(Mesh, RefusesWhatIsNone) {
  for (const char* text : {"", "pp", "pp=", "=4", "pp=0", "pp=4,pp=2", "pp=4,,dp=2", "pp=2000000"})
    EXPECT_FALSE(Mesh::parse(text)) << text;
}

TEST(Mesh, IsReadFromNames) {
  EXPECT_THAT(coordinates_in("/job/pp0_dp3/rank.reel"), testing::ElementsAre(Coordinate{"pp", 0}, Coordinate{"dp", 3}));
  EXPECT_THAT(coordinates_in("/tp1/run/tp-2.reel"), testing::ElementsAre(Coordinate{"tp", 2}));
  EXPECT_THAT(coordinates_in("/job/help2/app3/rank1.reel"), testing::IsEmpty());
}

}  // namespace
}  // namespace memreel
