// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memreel {
namespace {

using ::testing::HasSubstr;

Measured run_with_names() {
  return {.policies = {{"torch{max_split_size_mb:128}", 0, 6_GiB, 0.203125, 0}},
          .devices = {{0, 4_GiB, 3_MiB, "", {{"<lambda> \"x\"", "train.py", 2_GiB}}}, {-1, 1_KiB, 0_B, "", {}}}};
}

TEST(BaselineFile, ReadsWhatItWrote) {
  const auto read = parse_baseline(baseline_text(run_with_names()), "memory.json");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, run_with_names());
}

TEST(BaselineFile, HasOneMetricToALine) {
  EXPECT_THAT(baseline_text(run_with_names()), HasSubstr("\n      \"peak_reserved_bytes\": 6442450944,\n"));
}

TEST(BaselineFile, IsTheSameForTheSameRun) {
  EXPECT_EQ(baseline_text(run_with_names()), baseline_text(run_with_names()));
}

TEST(BaselineFile, OtherFilesAreRefusedWithTheirName) {
  const std::string text = baseline_text(run_with_names());
  std::string no_number = text;
  no_number.replace(no_number.find("6442450944"), 10, "\"6 GiB\"");
  std::string negative = text;
  negative.replace(negative.find("6442450944"), 10, "-1");
  for (const std::string& damaged : {std::string(), std::string("[]"), std::string("{\"schema\": \"memreel.check/1\"}"),
                                     text.substr(0, text.size() / 2), no_number, negative, std::string(100'000, '[')}) {
    const auto read = parse_baseline(damaged, "memory.json");
    ASSERT_FALSE(read) << damaged.substr(0, 200);
    EXPECT_THAT(read.error().message(), HasSubstr("memory.json"));
    EXPECT_THAT(read.error().message(), HasSubstr("--write-baseline"));
  }
}

}  // namespace
}  // namespace memreel
