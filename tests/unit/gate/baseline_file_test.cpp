// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memreel {
namespace {

using ::testing::HasSubstr;

Measured run_with_names() {
  return {.policies = {{"torch{max_split_size_mb:128}", 0, 6_GiB, 0.203125, 0}},
          .devices = {{0, 4_GiB, 3_MiB, "", {{"<lambda> \"x\"", "train.py", 2_GiB}}}, {-1, 1_KiB, 0_B, "", {}}},
          .version = "0.2.0"};
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

std::string refusal(Measured edited) {
  const auto read = parse_baseline(baseline_text(edited), "memory.json");
  return read ? "" : read.error().message();
}

TEST(BaselineFile, EntriesThatAreThereTwiceAreRefused) {
  Measured run = run_with_names();
  run.policies.push_back(run.policies.front());
  EXPECT_THAT(refusal(run), HasSubstr("has torch{max_split_size_mb:128} on device 0 twice"));
  run.policies.back().device = 1;
  EXPECT_EQ(refusal(run), "");
  run.devices.push_back(run.devices.back());
  EXPECT_THAT(refusal(run), HasSubstr("has host memory twice"));
}

TEST(BaselineFile, KeysThatAreThereTwiceAreRefused) {
  const std::string text = baseline_text(run_with_names());
  for (const std::string line :
       {"\"peak_reserved_bytes\": 6442450944,", "\"schema\": \"memreel.baseline/1\",", "\"steps\": 0,"}) {
    std::string merged = text;
    merged.insert(merged.find(line), line);
    const auto read = parse_baseline(merged, "memory.json");
    ASSERT_FALSE(read) << line;
    EXPECT_THAT(read.error().message(), HasSubstr("has '" + line.substr(1, line.find(':') - 2) + "' twice"));
  }
}

TEST(BaselineFile, FragmentationIsAShare) {
  Measured run = run_with_names();
  for (const double sensible : {0.0, 1.0}) {
    run.policies.front().fragmentation_at_peak = sensible;
    EXPECT_EQ(refusal(run), "");
  }
  for (const double senseless : {-0.5, 1.5, 7.0}) {
    run.policies.front().fragmentation_at_peak = senseless;
    EXPECT_THAT(refusal(run), HasSubstr("no sensible 'fragmentation_at_peak'"));
  }
}

}  // namespace
}  // namespace memreel
