// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/out_of_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/replay/prepare.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

/// A training loop: an input, `layers` activations from one line, as many gradients from a backward pass without
/// stacks, all freed by the end of the step.
class Training : public ::testing::Test {
 protected:
  Training() { builder_.alloc(origin_, next(), 100_MiB, weights_); }

  Address next() { return last_ = last_ + 1_GiB; }

  /// Runs a step with activations of `size`; stops before the layer `until`.
  void step(Bytes size, int layers, int until) {
    std::vector<AllocationId> held{builder_.alloc(origin_, next(), 20_MiB, input_)};
    for (int i = 0; i < until; ++i) held.push_back(builder_.alloc(origin_, next(), size, layer_));
    if (until < layers) return;
    for (int i = 0; i < layers; ++i) {
      held.push_back(builder_.alloc(origin_, next(), size));
      builder_.free(held[static_cast<std::size_t>(layers - i)]);
    }
    builder_.free(held.front());
    for (int i = 0; i < layers; ++i) builder_.free(held[static_cast<std::size_t>(layers + 1 + i)]);
  }

  std::optional<RestOfStep> fail(Bytes size, StackId stack) {
    builder_.event(EventKind::alloc_failed, origin_, {}, size, stack);
    const std::vector<Prepared> heaps = prepare(builder_.trace());
    const Activity activity = find_activity(builder_.trace());
    return rest_of_step(builder_.trace(), heaps.at(0), static_cast<std::uint32_t>(builder_.trace().events.count() - 1),
                        [&]() -> const Activity& { return activity; });
  }

  testing::TraceBuilder builder_;
  OriginId origin_ = builder_.origin(HeapId{1});
  StackId weights_ = builder_.stack({"load@train.py:3"}), input_ = builder_.stack({"main@train.py:20"});
  StackId layer_ = builder_.stack({"forward@model.py:7", "main@train.py:21"});
  Address last_{0x10000000};
};

TEST_F(Training, IsWhatAnEarlierStepDidFromThePointOn) {
  for (int i = 0; i < 3; ++i) step(50_MiB, 6, 6);
  step(50_MiB, 6, 4);
  const auto rest = fail(50_MiB, layer_);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->rounds, 3U);
  EXPECT_DOUBLE_EQ(rest->growth, 1);
  EXPECT_EQ(rest->more, 100_MiB);  // the last layer, and a gradient before the first activation is freed
  EXPECT_EQ(std::ranges::count(rest->rows.op, Op::alloc_failed), 0);
}

TEST_F(Training, GrowsWithTheStep) {
  for (int i = 0; i < 3; ++i) step(50_MiB, 6, 6);
  step(150_MiB, 6, 4);
  const auto rest = fail(150_MiB, layer_);
  ASSERT_TRUE(rest);
  EXPECT_NEAR(rest->growth, 3, 0.2);  // the input did not grow
  EXPECT_EQ(rest->more, 300_MiB);
  EXPECT_GT(rest->margin, 100_MiB) << "later steps may grow as well";
}

TEST_F(Training, FourEarlierStepsShowWhatLaterOnesAsk) {
  for (int i = 0; i < 4; ++i) step(50_MiB, 6, 6);
  step(50_MiB, 6, 4);
  EXPECT_TRUE(fail(50_MiB, layer_)->shows_later_steps());
}

TEST_F(Training, ThreeEarlierStepsAreTooFew) {
  for (int i = 0; i < 3; ++i) step(50_MiB, 6, 6);
  step(50_MiB, 6, 4);
  EXPECT_FALSE(fail(50_MiB, layer_)->shows_later_steps());
}

TEST_F(Training, NothingIsKnownOfLaterStepsWhileEachMakesAPoolOfItsOwn) {
  for (std::uint32_t i = 0; i < 5; ++i) {
    step(50_MiB, 6, 6);
    const OriginId capture = builder_.origin(HeapId{1}, 0, PoolId{7 + i});
    builder_.free(builder_.alloc(capture, next(), 20_MiB, layer_));
  }
  step(50_MiB, 6, 4);
  const auto rest = fail(50_MiB, layer_);
  ASSERT_TRUE(rest);
  EXPECT_FALSE(rest->shows_later_steps());
}

TEST_F(Training, PoolsAndStreamsOfTheFirstStepAreNoSurprise) {
  builder_.alloc(builder_.origin(HeapId{1}, 0x40), next(), 20_MiB, layer_);
  for (int i = 0; i < 4; ++i) step(50_MiB, 6, 6);
  step(50_MiB, 6, 4);
  EXPECT_TRUE(fail(50_MiB, layer_)->shows_later_steps());
}

TEST_F(Training, LaterStepsMayDifferAsMuchAsEarlierOnesDid) {
  for (const Bytes size : {20_MiB, 50_MiB, 30_MiB, 45_MiB}) step(size, 6, 6);
  step(50_MiB, 6, 4);
  const Bytes held{270 << 20};
  EXPECT_GT(fail(50_MiB, layer_)->margin, held);
}

TEST_F(Training, StepsThatDifferLeaveMoreOpenThanStepsThatAreAlike) {
  for (int i = 0; i < 4; ++i) step(50_MiB, 6, 6);
  step(50_MiB, 6, 4);
  EXPECT_NEAR(static_cast<double>(fail(50_MiB, layer_)->margin.count), 0.03 * 270 * 1024 * 1024, 1e4);
}

TEST_F(Training, OfALargeModelTheMarginIsAShareOfAllMemory) {
  builder_.alloc(origin_, next(), 10_GiB, weights_);
  for (const Bytes size : {40_MiB, 50_MiB, 45_MiB, 50_MiB}) step(size, 6, 6);
  step(50_MiB, 6, 4);
  EXPECT_GT(fail(50_MiB, layer_)->margin, 500_MiB);
}

TEST_F(Training, NothingIsKnownBeforeAnOptimizerMakesItsState) {
  step(50_MiB, 6, 6);
  builder_.alloc(origin_, next(), 100_MiB);  // gradients, which stay
  for (int i = 0; i < 3; ++i) step(50_MiB, 6, 6);
  step(50_MiB, 6, 4);
  EXPECT_FALSE(fail(50_MiB, layer_));
}

TEST_F(Training, WhatAnOptimizerKeepsIsNoSurprise) {
  step(50_MiB, 6, 6);
  builder_.alloc(origin_, next(), 100_MiB, builder_.stack({"step@torch/optim/adamw.py:232", "main@train.py:23"}));
  for (int i = 0; i < 3; ++i) step(50_MiB, 6, 6);
  step(50_MiB, 6, 4);
  EXPECT_TRUE(fail(50_MiB, layer_));
}

TEST_F(Training, LayersOfTheFirstStepAreNoSteps) {
  step(50_MiB, 40, 17);
  EXPECT_FALSE(fail(50_MiB, layer_));
}

TEST_F(Training, NothingIsKnownOfAnotherPlace) {
  for (int i = 0; i < 3; ++i) step(50_MiB, 6, 6);
  EXPECT_FALSE(fail(50_MiB, builder_.stack({"evaluate@train.py:40"})));
}

TEST_F(Training, ACacheThatGrowsWithEachRoundIsNoStep) {
  for (int token = 0; token < 20; ++token) {
    const AllocationId temporary = builder_.alloc(origin_, next(), 30_MiB, input_);
    builder_.alloc(origin_, next(), 10_KiB, layer_);
    builder_.free(temporary);
  }
  EXPECT_FALSE(fail(30_MiB, input_));
}

}  // namespace
}  // namespace memreel
