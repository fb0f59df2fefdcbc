// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/gate_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace memreel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Check> checks() {
  return {{.name = "max-peak", .number = 0, .value = 1_GiB, .limit = 2_GiB},
          {.name = "max-reserved",
           .policy = "torch{a:1}",
           .number = 1,
           .value = 3_GiB,
           .limit = 2_GiB,
           .reason = "held by <lambda> & \"co\" | *bold*\n\x01 done"}};
}

TEST(JUnit, HasOneCaseForEachCheckAndCountsTheFailures) {
  const std::string text = junit_of({"run.reel", checks()});
  EXPECT_THAT(text, HasSubstr("tests=\"2\" failures=\"1\""));
  EXPECT_THAT(text, HasSubstr("<testcase classname=\"memreel\" name=\"max-peak device 0\"/>"));
  EXPECT_THAT(text, HasSubstr("name=\"max-reserved torch{a:1} device 1\""));
}

TEST(JUnit, AnyTextIsEscaped) {
  const std::string text = junit_of({"<run> & \xff", checks()});
  EXPECT_THAT(text, HasSubstr("held by &lt;lambda&gt; &amp; &quot;co&quot;"));
  EXPECT_THAT(text, Not(HasSubstr("\x01")));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
}

GateOutcome in_part() {
  return {"run.reel",
          {incomplete(std::vector<std::string>{"the oldest events", "the end"}),
           checks()[0],
           {.name = "max-leaked", .value = 0_B, .limit = 0_B, .unjudged = "leaks of device 0, not judged: no steps"}}};
}

TEST(JUnit, WhatIsNotJudgedIsSkipped) {
  const std::string text = junit_of(in_part());
  EXPECT_THAT(text, HasSubstr("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"2\""));
  EXPECT_THAT(text, HasSubstr("message=\"incomplete: the oldest events; the end\""));
  EXPECT_THAT(text, HasSubstr("<skipped type=\"not judged\" message=\"leaks of device 0, not judged: no steps\">"));
}

TEST(Markdown, SaysWhatIsNotJudged) {
  const std::string text = markdown_of(in_part());
  EXPECT_THAT(text, HasSubstr("within its limits, as far as it could be judged\n"));
  EXPECT_THAT(text, HasSubstr("3 checks, 0 failed, 2 not judged"));
  EXPECT_THAT(text, HasSubstr("| not judged | max-leaked |  | 0 |  |  |"));
  EXPECT_THAT(text, HasSubstr("- leaks of device 0, not judged: no steps\n"));
  EXPECT_TRUE(in_part().passed());
}

TEST(JUnit, WhatCouldNotBeJudgedIsAnError) {
  const std::string text = junit_of(Error{.what = "is <damaged>", .where = "run.reel"}, "run.reel");
  EXPECT_THAT(text, HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""));
  EXPECT_THAT(text, HasSubstr("<error type=\"not judged\" message=\"run.reel: is &lt;damaged&gt;\">"));
}

TEST(Markdown, ATableAndALineForEachFailure) {
  const std::string text = markdown_of({"run.reel", checks()});
  EXPECT_THAT(text, HasSubstr("exceeds its limits"));
  EXPECT_THAT(text, HasSubstr("2 checks, 1 failed"));
  EXPECT_THAT(text, HasSubstr("| ✅ | max-peak |  | 0 | 1.00 GiB | 2.00 GiB |"));
  EXPECT_THAT(text, HasSubstr("- held by &lt;lambda&gt; &amp; \"co\" \\| \\*bold\\*"));
}

TEST(Markdown, SaysWhenAllIsWell) {
  EXPECT_THAT(markdown_of({"run.reel", {checks()[0]}}), HasSubstr("within its limits"));
}

GateOutcome of_job() {
  return {"8 ranks",
          {{.name = "complete", .of = CheckOf::all, .value = RankCount{1}, .limit = RankCount{}, .reason = "rank 2"},
           {.name = "max-reserved", .of = CheckOf::rank, .number = 6, .value = 1_GiB, .limit = 2_GiB},
           {.name = "max-imbalance", .of = CheckOf::all, .value = Ratio{1.576}, .limit = Ratio{1.2}, .reason = "x"}},
          true};
}

TEST(Outcome, OfAJobNamesRanksAndNoDevices) {
  const std::string junit = junit_of(of_job()), markdown = markdown_of(of_job());
  for (const char* const title : {"complete", "max-reserved rank 6", "max-imbalance"})
    EXPECT_THAT(junit, HasSubstr("name=\"" + std::string(title) + "\""));
  EXPECT_THAT(markdown, HasSubstr("| | check | rank | value | limit |\n|---|---|---|---:|---:|\n"));
  EXPECT_THAT(markdown, HasSubstr("| ❌ | complete |  | 1 rank | 0 ranks |"));
  EXPECT_THAT(markdown, HasSubstr("| ✅ | max-reserved | 6 | 1.00 GiB | 2.00 GiB |"));
  EXPECT_THAT(markdown, HasSubstr("| ❌ | max-imbalance |  | 1.58 | 1.20 |"));
  for (const char* const of_devices : {"device", "host", "%", "request"})
    EXPECT_THAT(junit + markdown, Not(HasSubstr(of_devices)));
}

}  // namespace
}  // namespace memreel
