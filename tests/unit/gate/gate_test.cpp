// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model/stack_text.h"

namespace memreel {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Measured run() {
  return {.policies = {{"torch.native", 0, 6_GiB, 0.20, 0}, {"fit.best", 0, 5_GiB, 0.05, 2}},
          .devices = {{0, 4_GiB, 3_MiB, "", {{"step", "train.py", 2_GiB}, {"load", "data.py", 1_GiB}}}}};
}

std::vector<std::string> failed(const std::vector<Check>& checks) {
  std::vector<std::string> names;
  for (const Check& check : checks)
    if (!check.passed()) names.push_back(check.name + (check.policy.empty() ? "" : " " + check.policy));
  return names;
}

TEST(Budgets, AreKeptUpToTheLastByte) {
  const Budgets exact{.max_peak = 4_GiB, .max_reserved = 6_GiB, .max_leaked = 3_MiB, .max_fragmentation = 0.20};
  EXPECT_THAT(failed(check_budgets(run(), exact)), IsEmpty());
  EXPECT_EQ(check_budgets(run(), exact).size(), 6U);
}

TEST(Budgets, EachFailsByItself) {
  const auto less = [](Bytes size) { return size - 1_B; };
  EXPECT_THAT(failed(check_budgets(run(), {.max_peak = less(4_GiB)})), ::testing::ElementsAre("max-peak"));
  EXPECT_THAT(failed(check_budgets(run(), {.max_reserved = less(6_GiB)})),
              ::testing::ElementsAre("max-reserved torch.native"));
  EXPECT_THAT(failed(check_budgets(run(), {.max_leaked = less(3_MiB)})), ::testing::ElementsAre("max-leaked"));
  EXPECT_THAT(failed(check_budgets(run(), {.max_fragmentation = 0.1})),
              ::testing::ElementsAre("max-fragmentation torch.native"));
  EXPECT_THAT(failed(check_budgets(run(), {.all_served = true})), ::testing::ElementsAre("capacity fit.best"));
}

TEST(Budgets, AReasonSaysWhatByHowMuchAndWhere) {
  const auto checks = check_budgets(run(), {.max_reserved = 5_GiB});
  EXPECT_EQ(checks[0].reason,
            "peak of reserved memory on device 0 with torch.native: 6.00 GiB, 1.00 GiB more than the 5.00 GiB allowed; "
            "at the peak, the largest holder is step (train.py): 2.00 GiB");
}

TEST(Budgets, AReasonNamesTheStack) {
  Measured now = run();
  now.devices[0].sites[0].stack = {"step (train.py:7)", "main (train.py:40)"};
  now.devices[0].sites[0].of_stack = 1_GiB;
  now.devices[0].leaks = {{"keep", "log.py", 3_MiB, {"keep (log.py:3)", "main (train.py:41)"}, 3_MiB}};
  EXPECT_THAT(check_budgets(now, {.max_peak = 1_GiB})[0].reason,
              HasSubstr("step (train.py): 2.00 GiB, of which 1.00 GiB at step (train.py:7) < main (train.py:40)"));
  EXPECT_THAT(check_budgets(now, {.max_leaked = 0_B})[0].reason,
              HasSubstr("most is leaked by keep (log.py): 3.00 MiB, at keep (log.py:3) < main (train.py:41)"));
}

TEST(Budgets, WhatCanNotBeJudgedDoesNotPass) {
  Measured now = run();
  now.devices[0].leaked = 0_B;
  now.devices[0].leaks_not_judged = "not judged: the recording holds 1 step";
  now.devices[0].categories[Category::activation] = {.peak = 1_MiB, .peak_with_unknown = 1_GiB, .place = ""};
  const auto checks = check_budgets(now, {.max_leaked = 0_B, .max_category = {{Category::activation, 1_MiB}}});
  EXPECT_THAT(unjudged_in(checks, "max-leaked"),
              ::testing::ElementsAre("leaks of device 0, not judged: the recording holds 1 step"));
  EXPECT_THAT(unjudged_in(checks, "max-category"), ::testing::ElementsAre(HasSubstr("may be activations")));
  EXPECT_EQ(unjudged_in(checks).size(), 2U);
  EXPECT_FALSE(check_baseline(now, run(), 0)[1].judged());
  now.devices[0].leaked = 4_MiB;  // whatever else is not known
  EXPECT_TRUE(check_budgets(now, {.max_leaked = 0_B})[0].failed());
}

TEST(Budgets, ReservedMemoryThatIsNotKnownDoesNotPass) {
  Measured now = run();
  now.policies.clear();
  const auto checks = check_budgets(now, {.max_reserved = 1024_GiB, .max_fragmentation = 1.0});
  EXPECT_EQ(checks.size(), 2U);
  EXPECT_THAT(unjudged_in(checks),
              ::testing::ElementsAre("reserved memory on device 0, not judged: it is not recorded"));
}

TEST(Budgets, AReasonNamesNoPlaceThatSaysNothing) {
  Measured now = run();
  now.devices[0].sites.insert(now.devices[0].sites.begin(), {std::string(preexisting_frame), "", 3_GiB, {}, {}});
  EXPECT_THAT(check_budgets(now, {.max_peak = 1_GiB})[0].reason,
              HasSubstr("of what has a call stack, the largest holder is step (train.py): 2.00 GiB"));
  now.devices[0].sites = {{std::string(preexisting_frame), "", 3_GiB, {}, {}}, {"", "", 1_GiB, {}, {}}};
  EXPECT_THAT(check_budgets(now, {.max_peak = 1_GiB})[0].reason, ::testing::EndsWith("allowed"));
  now.devices[0].sites = {{"step", "train.py", 2_GiB + 1_B, {}, {}}};  // of 4 GiB
  EXPECT_THAT(check_budgets(now, {.max_peak = 1_GiB})[0].reason, HasSubstr("most is held by step (train.py)"));
}

TEST(Baseline, WhatItLacksIsNamed) {
  Measured more = run();
  more.devices.push_back({.device = 1});
  more.policies.push_back({.policy = "torch.native", .device = 1});
  more.policies.push_back({.policy = "tlsf", .device = 0});
  EXPECT_THAT(not_in_baseline(more, run()), ::testing::ElementsAre("device 1", "tlsf on device 0"));
  EXPECT_THAT(not_in_baseline(run(), more), IsEmpty());
}

TEST(Baseline, TheSameRunIsNoRegression) { EXPECT_THAT(failed(check_baseline(run(), run(), 0)), IsEmpty()); }

TEST(Baseline, LessIsNeverARegression) {
  Measured better = run();
  better.policies[0].peak_reserved = 1_GiB;
  better.policies[1].failed_allocations = 0;
  better.devices[0].peak_live = 1_GiB;
  better.devices[0].leaked = 0_B;
  EXPECT_THAT(failed(check_baseline(better, run(), 0)), IsEmpty());
}

TEST(Baseline, GrowthWithinTheToleranceIsAllowed) {
  Measured more = run();
  more.policies[0].peak_reserved = 6_GiB + 60_MiB;  // 0.98 %
  EXPECT_THAT(failed(check_baseline(more, run(), 0.01)), IsEmpty());
  EXPECT_THAT(failed(check_baseline(more, run(), 0.009)),
              ::testing::ElementsAre("baseline peak-reserved torch.native"));
}

TEST(Baseline, ARegressionNamesTheFunctionThatGrewMost) {
  Measured more = run();
  more.devices[0].peak_live = 5_GiB;
  more.devices[0].sites = {{"step", "train.py", 2_GiB + 100_MiB}, {"augment", "data.py", 900_MiB}};
  const auto checks = check_baseline(more, run(), 0.01);
  ASSERT_THAT(failed(checks), ::testing::ElementsAre("baseline peak-live"));
  EXPECT_THAT(checks[0].reason, HasSubstr("augment (data.py) grew most: 900.00 MiB, before 0 B"));
}

TEST(Baseline, EveryMetricIsCompared) {
  Measured worse = run();
  worse.policies[1].failed_allocations = 3;
  worse.policies[0].fragmentation_at_peak = 0.22;
  worse.devices[0].leaked = 30_MiB;
  EXPECT_THAT(failed(check_baseline(worse, run(), 0.01)),
              ::testing::UnorderedElementsAre("baseline failures fit.best", "baseline fragmentation torch.native",
                                              "baseline leaked"));
}

TEST(Baseline, WhatOnlyOneSideHasIsNotJudged) {
  Measured other = run();
  other.policies = {{"tlsf", 0, 9_GiB, 0.9, 7}};
  other.devices[0].device = 1;
  EXPECT_THAT(check_baseline(run(), other, 0), IsEmpty());
}

}  // namespace
}  // namespace memreel
