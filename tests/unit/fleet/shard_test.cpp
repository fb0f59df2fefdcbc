// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace memreel {
namespace {

Result<Shard> in(std::map<std::string, std::string> variables) {
  return shard_of([variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

void expect_part(const Result<Shard>& shard, std::uint32_t index, std::uint32_t count) {
  ASSERT_TRUE(shard) << shard.error().message();
  EXPECT_EQ(shard->index, index);
  EXPECT_EQ(shard->count, count);
}

TEST(Shard, IsTheWholeWithoutALauncher) { expect_part(in({}), 0, 1); }

TEST(Shard, ComesFromEveryLauncher) {
  expect_part(in({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}}), 3, 8);
  expect_part(in({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), 1, 4);
  expect_part(in({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}), 2, 4);
  expect_part(in({{"RANK", "5"}, {"WORLD_SIZE", "6"}}), 5, 6);
  expect_part(in({{"JOB_COMPLETION_INDEX", "7"}, {"JOB_COMPLETIONS", "8"}}), 7, 8);
}

TEST(Shard, OfASlurmArrayCountsFromItsFirstTask) {
  expect_part(in({{"SLURM_ARRAY_TASK_ID", "12"},
                  {"SLURM_ARRAY_TASK_COUNT", "4"},
                  {"SLURM_ARRAY_TASK_MIN", "10"},
                  {"SLURM_ARRAY_TASK_STEP", "2"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "1"}}),
              1, 4);
}

TEST(Shard, OfABatchScriptIsTheWhole) {
  std::map<std::string, std::string> batch{{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  expect_part(in(batch), 0, 1);
  batch.emplace("SLURM_STEP_ID", "0");
  expect_part(in(batch), 0, 4);
}

TEST(Shard, OfAProcessInAnArrayIsAPartOfAPart) {
  expect_part(
      in({{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "2"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}}),
      5, 6);
}

TEST(Shard, OfALauncherInsideAnotherIsTheInnerOne) {
  expect_part(in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"RANK", "3"}, {"WORLD_SIZE", "16"}}), 3, 16);
}

TEST(Shard, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(in({{"SLURM_PROCID", "8"}, {"SLURM_NTASKS", "8"}}));
  EXPECT_FALSE(in({{"RANK", "one"}, {"WORLD_SIZE", "2"}}));
  EXPECT_FALSE(parse_shard("8/8"));
  EXPECT_FALSE(parse_shard("1"));
  EXPECT_FALSE(parse_shard("-1/2"));
  expect_part(parse_shard("7/8"), 7, 8);
}

}  // namespace
}  // namespace memreel
