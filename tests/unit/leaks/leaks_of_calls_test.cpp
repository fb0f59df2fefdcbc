// SPDX-License-Identifier: Apache-2.0
// What an evaluation after the last step keeps.
#include <gtest/gtest.h>

#include "analyzer/analysis/insight/leaks.h"
#include "tests/leak_score.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

class AnEvaluation : public ::testing::TestWithParam<std::int32_t> {
 protected:
  StackId stack_of_module(const std::string& line, const std::string& call) {
    return build_.stack({"forward@site-packages/torch/nn/modules/linear.py:134",
                         "_call_impl@site-packages/torch/nn/modules/module.py:1762", "forward@model.py:" + line,
                         "_call_impl@site-packages/torch/nn/modules/module.py:1762", "main@train.py:" + call,
                         "<module>@train.py:90"});
  }

  AllocationId keep(StackId stack, Bytes size = 512_KiB) {
    return build_.alloc(origin_, {next_ += size.count}, size, stack);
  }
  void alloc(StackId stack) { build_.free(keep(stack)); }

  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      for (const StackId layer : {hidden_, output_}) alloc(layer);
      for (int k = 0; k < 4; ++k) alloc(engine_);
      alloc(optimizer_);
    }
  }
  std::vector<AllocationId> evaluate(int batches) {
    std::vector<AllocationId> outputs;
    for (int i = 0; i < batches; ++i) {
      alloc(batch_);
      alloc(evaluated_hidden_);
      outputs.push_back(keep(evaluated_output_, 2_MiB));
    }
    return outputs;
  }
  void free(const std::vector<AllocationId>& outputs) {
    for (const AllocationId id : outputs) build_.free(id);
  }

  LeakReport report(const LeakOptions& options = {}) { return test::leaks_of(build_.trace(), options); }

  TraceBuilder build_;
  OriginId origin_ = build_.origin(build_.heap("torch.cuda", Level::framework, GetParam()));
  StackId hidden_ = stack_of_module("7", "20");
  StackId output_ = stack_of_module("8", "20");
  StackId evaluated_hidden_ = stack_of_module("7", "43");
  StackId evaluated_output_ = stack_of_module("8", "43");
  StackId batch_ = build_.stack({"batches@data.py:12", "main@train.py:42", "<module>@train.py:90"});
  StackId engine_ = build_.stack({"torch::autograd::Engine::evaluate_function@engine.cpp:1"});
  StackId optimizer_ =
      build_.stack({"step@site-packages/torch/optim/adamw.py:1", "main@train.py:22", "<module>@train.py:90"});
  std::uint64_t next_ = 1 << 20;
};

TEST_P(AnEvaluation, IsSuspectedOfKeepingItsOutputs) {
  train(6);
  const std::vector<AllocationId> outputs = evaluate(20);
  const LeakReport leaks = report();
  ASSERT_EQ(leaks.causes.size(), 1U);
  const LeakFinding& finding = leaks.findings.front();
  EXPECT_EQ(finding.verdict, LeakVerdict::suspected);
  EXPECT_EQ(finding.unit, GrowsWith::calls);
  EXPECT_EQ(leaks.causes.front().unit, GrowsWith::calls);
  EXPECT_EQ(finding.bytes, 40_MiB);
  EXPECT_EQ(finding.allocations, outputs);
  EXPECT_NEAR(finding.growth_bytes_per_step, 2 << 20, 1);
  EXPECT_EQ(finding.evidence,
            "20 of 20 calls of the model at train.py:43 after the last step kept 2.00 MiB allocated at model.py:8; "
            "nothing allocated there was ever freed");
  for (const HeapRounds& heap : leaks.heaps) EXPECT_EQ(heap.rounds.count(), 6U);
  for (const LeakFinding& other : leaks.findings)
    EXPECT_TRUE(&other == &finding || other.stack != finding.stack) << other.evidence;
  EXPECT_TRUE(report({.suppressions =
                          [] {
                            Suppressions quiet = Suppressions::built_in();
                            EXPECT_TRUE(quiet.add_lines("leak:model.py", "test"));
                            return quiet;
                          }()})
                  .causes.empty());
}

TEST_P(AnEvaluation, ThatFailedIsSuspectedOfWhatItHadKept) {
  train(6);
  const std::vector<AllocationId> outputs = evaluate(20);
  alloc(batch_);
  build_.push({.kind = EventKind::alloc_failed, .origin = origin_, .stack = evaluated_hidden_, .size = 1_GiB});
  const LeakReport leaks = report();
  ASSERT_EQ(leaks.causes.size(), 1U);
  EXPECT_GE(leaks.findings.front().bytes, 38_MiB);  // the last call may have failed
}

TEST_P(AnEvaluation, ThatFreedItsOutputsInTheEndKeepsNothing) {
  train(6);
  free(evaluate(20));
  EXPECT_TRUE(report().causes.empty());
}

TEST_P(AnEvaluation, MayYetFreeItsOutputsAsEarlierOnesDid) {
  for (int i = 0; i < 3; ++i) {
    train(6);
    free(evaluate(20));
  }
  train(6);
  evaluate(18);
  EXPECT_TRUE(report().causes.empty());
}

TEST_P(AnEvaluation, KeepsWhatEarlierOnesKeptToo) {
  for (int i = 0; i < 3; ++i) {
    train(6);
    evaluate(20);
  }
  const LeakReport leaks = report();
  ASSERT_EQ(leaks.causes.size(), 1U);
  EXPECT_EQ(leaks.findings.front().bytes, 120_MiB);
  EXPECT_NE(leaks.findings.front().evidence.find("kept 2.00 MiB allocated at model.py:8, as earlier ones did; "),
            std::string::npos)
      << leaks.findings.front().evidence;
}

TEST_P(AnEvaluation, OfTooFewBatchesIsNotJudged) {
  train(6);
  evaluate(3);
  EXPECT_TRUE(report().causes.empty());
}

INSTANTIATE_TEST_SUITE_P(OnADevice, AnEvaluation, ::testing::Values(0, 3));

}  // namespace
}  // namespace memreel
