// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/session.h"

#include <gtest/gtest.h>

namespace memreel::attach {
namespace {

TEST(Findings, AreReadFromAReport) {
  const auto findings = findings_of(R"({"schema": "memreel.report/1",
    "live_at_end": [{"device": 1, "heap": "torch.cuda", "categories": [
      {"category": "parameter", "bytes": 70}, {"category": "activation", "bytes": 0}]},
      {"device": 1, "heap": "torch.cuda", "categories": [{"category": "parameter", "bytes": 7}]}],
    "leaks": [
      {"verdict": "suspected", "bytes": 5, "count": 1, "growth_bytes_per_step": 0.5, "stack": []},
      {"verdict": "leak", "bytes": 50, "count": 2, "growth_bytes_per_step": 10, "stack": [
        {"function": "libtorch+0x1", "file": "libtorch.so", "line": 0},
        {"function": "train\n", "file": "/home/me/train.py", "line": 4}]},
      {"verdict": "resident", "bytes": 500, "count": 1, "growth_bytes_per_step": 0, "stack": []}]})");
  ASSERT_TRUE(findings);
  EXPECT_EQ(
      *findings,
      (Findings{
          .categories = {{.device = 1, .heap = "torch.cuda", .category = "parameter", .bytes = 77_B}},
          .leaks = {
              {.verdict = "leak", .bytes = 50_B, .count = 2, .growth_per_step = 10, .place = "train\\n (train.py:4)"},
              {.verdict = "suspected", .bytes = 5_B, .count = 1, .growth_per_step = 0.5, .place = ""}}}));
}

TEST(Findings, AreNoneWithoutAReport) {
  EXPECT_FALSE(findings_of(""));
  EXPECT_FALSE(findings_of("[1]"));
  EXPECT_FALSE(findings_of(R"({"schema": "memreel.info/1"})"));
  EXPECT_EQ(findings_of(R"({"schema": "memreel.report/1", "live_at_end": 3, "leaks": [1, {"stack": 2}]})"), Findings{});
}

}  // namespace
}  // namespace memreel::attach
