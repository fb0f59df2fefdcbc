// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/rounds.h"

#include <gtest/gtest.h>

#include <utility>

#include "analyzer/analysis/analysis.h"
#include "analyzer/replay/prepare.h"
#include "formats/model/stack_text.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

/// A program of stacks like PyTorch's.
class RoundsOfAProgram : public ::testing::Test {
 protected:
  AllocationId keep(StackId stack, Bytes size = 512_B) { return build_.alloc(origin_, {next_ += 512}, size, stack); }
  void alloc(StackId stack, Bytes size = 512_B) { build_.free(keep(stack, size)); }
  void mark(const std::string& name) {
    Tables& tables = build_.trace().tables;
    tables.strings.push_back(name);
    tables.marks.push_back(
        {.name = StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)}, .phase = MarkPhase::end});
    build_.push({.kind = EventKind::mark, .origin = origin_, .value = tables.marks.size() - 1});
  }
  void fail() { build_.push({.kind = EventKind::alloc_failed, .origin = origin_, .stack = layer_, .size = 1_GiB}); }

  void forward(int layers = 6) {
    for (int k = 0; k < layers; ++k) {
      alloc(layer_);
      alloc(other_layer_);
    }
  }
  void backward(int gradients = 4) {
    for (int k = 0; k < gradients; ++k) alloc(engine_);
  }
  /// A server that warms up: for each of 32 batch sizes a graph, which keeps its output; its pool reuses the rest.
  void capture_graphs(StackId first, StackId second) {
    for (std::uint32_t graph = 1; graph <= 32; ++graph) {
      build_.trace().tables.pools.push_back({.key_high = graph, .key_low = 0});
      const OriginId program = std::exchange(origin_, build_.origin(HeapId{1}, 7, PoolId{graph}));
      alloc(first, 40_MiB);
      alloc(second, 8_MiB);
      keep(loss_, 4_MiB);
      origin_ = program;
    }
  }
  Rounds rounds() { return Analysis(build_.trace()).rounds(HeapId{1}); }

  StackId stack_of_module(const std::string& line, const std::string& call) {
    return build_.stack({"forward@site-packages/torch/nn/modules/linear.py:134",
                         "_call_impl@site-packages/torch/nn/modules/module.py:1762", "forward@model.py:" + line,
                         "_call_impl@site-packages/torch/nn/modules/module.py:1762", "main@train.py:" + call,
                         "<module>@train.py:50"});
  }

  TraceBuilder build_;
  OriginId origin_ = build_.origin(HeapId{1});
  StackId load_ = build_.stack({"load@train.py:10", "<module>@train.py:50"});
  StackId loss_ = build_.stack({"loss@train.py:12", "<module>@train.py:50"});
  StackId layer_ = stack_of_module("7", "20");
  StackId other_layer_ = stack_of_module("8", "20");
  StackId engine_ = build_.stack({"torch::autograd::Engine::evaluate_function@engine.cpp:1"});
  StackId optimizer_ =
      build_.stack({"step@site-packages/torch/optim/adamw.py:1", "main@train.py:22", "<module>@train.py:50"});
  std::uint64_t next_ = 4096;
};

TEST_F(RoundsOfAProgram, MarksOfStepsComeFirst) {
  for (int i = 0; i < 9; ++i) {
    for (int k = 0; k < 3; ++k) forward();
    backward();
    alloc(optimizer_);
    mark("step");
  }
  EXPECT_EQ(rounds().source, RoundSource::marks);
  EXPECT_EQ(rounds().count(), 9U);
  EXPECT_EQ(text_of(rounds()), "9 steps, from the marks \"step\"");
}

TEST_F(RoundsOfAProgram, MarksOfTheFirstStepsOnlyLeaveTheStepsToTheOptimizer) {
  for (int i = 0; i < 20; ++i) {
    forward();
    backward();
    alloc(optimizer_);
    if (i < 5) mark("ProfilerStep");
  }
  EXPECT_EQ(rounds().source, RoundSource::optimizer);
  EXPECT_EQ(rounds().count(), 20U);
}

TEST_F(RoundsOfAProgram, MarksStayTheStepsWhereWhatFollowsIsNoTraining) {
  for (int i = 0; i < 5; ++i) {
    forward();
    backward();
    alloc(optimizer_);
    mark("step");
  }
  for (int i = 0; i < 20; ++i) forward();
  EXPECT_EQ(rounds().source, RoundSource::marks);
  EXPECT_EQ(rounds().count(), 5U);
}

/// torch.optim.LBFGS evaluates the model anew in its steps, and Lightning runs each whole step in one.
TEST_F(RoundsOfAProgram, WhatAnOptimizerCallsIsNoPassOfIt) {
  const auto in_closure = [&](const std::string& innermost) {
    return build_.stack({innermost, "closure@train.py:30", "step@site-packages/torch/optim/adamw.py:1",
                         "main@train.py:22", "<module>@train.py:50"});
  };
  const StackId noise = in_closure("training_step@train.py:33"),
                gradient = in_closure("backward@site-packages/torch/_tensor.py:1");
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 3; ++k) {
      alloc(noise);
      backward();
      alloc(gradient);
    }
    alloc(optimizer_);
  }
  EXPECT_EQ(rounds().source, RoundSource::optimizer);
  EXPECT_EQ(rounds().count(), 6U);
}

/// LBFGS: from one line of its step() first, then from another until it has found its way.
TEST_F(RoundsOfAProgram, AnOptimizerThatEvaluatesTheModelSeveralTimesMakesOneStep) {
  const auto from = [&](const std::string& line) {
    return std::vector<std::string>{"step@site-packages/torch/optim/lbfgs.py:" + line,
                                    "wrapper@site-packages/torch/optim/optimizer.py:487", "main@train.py:22",
                                    "<module>@train.py:50"};
  };
  const auto in_step = [&](const std::string& line, std::vector<std::string_view> inner) {
    const std::vector<std::string> outer = from(line);
    inner.insert(inner.end(), outer.begin(), outer.end());
    return build_.stack(inner);
  };
  const StackId first = in_step("346", {"residual@train.py:33", "closure@train.py:30"});
  const StackId again = in_step("468", {"residual@train.py:33", "closure@train.py:30"});
  const StackId gather[] = {in_step("351", {"_gather_flat_grad@site-packages/torch/optim/lbfgs.py:270"}),
                            in_step("469", {"_gather_flat_grad@site-packages/torch/optim/lbfgs.py:270"})};
  for (int i = 0; i < 6; ++i)
    for (int k = i == 0 ? 2 : 0; k < 5; ++k) {  // the recording began within a step
      alloc(k == 0 ? first : again);
      backward();
      alloc(gather[k == 0 ? 0 : 1]);
    }
  EXPECT_EQ(rounds().source, RoundSource::optimizer);
  EXPECT_EQ(rounds().count(), 6U);
}

TEST_F(RoundsOfAProgram, OptimizersThatTakeTurnsMakeOneStepTogether) {
  const StackId critic =
      build_.stack({"step@site-packages/torch/optim/adamw.py:1", "main@train.py:31", "<module>@train.py:50"});
  const auto step = [&](StackId optimizer) {
    forward();
    backward();
    alloc(optimizer);
  };
  step(critic);  // the recording began in the middle of an iteration
  for (int i = 0; i < 8; ++i) {
    step(optimizer_);
    step(critic);
  }
  EXPECT_EQ(rounds().count(), 9U);
  EXPECT_EQ(text_of(rounds()), "9 steps, each a pass of the optimizer");
}

TEST_F(RoundsOfAProgram, PyTorchsMarksOfOptimizersThatTakeTurnsAreNotItsSteps) {
  const StackId critic =
      build_.stack({"step@site-packages/torch/optim/adamw.py:1", "main@train.py:31", "<module>@train.py:50"});
  std::vector<std::uint32_t> ends;
  for (int i = 0; i < 8; ++i)
    for (const StackId optimizer : {critic, optimizer_}) {
      forward();
      backward();
      alloc(optimizer);
      mark("Optimizer.step#AdamW.step");
      if (optimizer == optimizer_) ends.push_back(static_cast<std::uint32_t>(build_.trace().events.count() - 1));
    }
  EXPECT_EQ(find_steps(build_.trace(), HeapId{1}).ends.size(), 16U);
  const Analysis analysis(build_.trace());
  EXPECT_EQ(analysis.steps(HeapId{1}).mark, "each a pass of the optimizer");
  EXPECT_EQ(analysis.steps(HeapId{1}).ends.size(), 8U);
  const Prepared heap = prepare(build_.trace()).front();
  EXPECT_EQ(analysis.step_ends(heap), rows_after(heap, ends));
}

TEST_F(RoundsOfAProgram, MarksThatTheProgramMakesAreItsStepsHoweverFew) {
  for (int i = 0; i < 2; ++i) {
    forward();
    mark("step");
  }
  EXPECT_FALSE(rounds().suffice());
  EXPECT_EQ(Analysis(build_.trace()).steps(HeapId{1}).mark, "step");
  EXPECT_EQ(Analysis(build_.trace()).steps(HeapId{1}).ends.size(), 2U);
}

TEST_F(RoundsOfAProgram, AnOptimizerThatRunsNowAndThenMakesNoStepsOfItsOwn) {
  const StackId generator =
      build_.stack({"step@site-packages/torch/optim/adamw.py:1", "main@train.py:31", "<module>@train.py:50"});
  for (int i = 0; i < 20; ++i) {
    forward();
    backward();
    alloc(optimizer_);
    if (i % 5 != 4) continue;
    forward();
    backward();
    alloc(generator);
  }
  EXPECT_EQ(rounds().count(), 20U);
}

TEST_F(RoundsOfAProgram, OneTrainingAfterAnotherMakesTheStepsOfBoth) {
  const StackId later =
      build_.stack({"step@site-packages/torch/optim/adamw.py:1", "main@train.py:31", "<module>@train.py:50"});
  for (const StackId optimizer : {optimizer_, later})
    for (int i = 0; i < 7; ++i) {
      forward();
      backward();
      alloc(optimizer);
    }
  EXPECT_EQ(rounds().count(), 14U);
}

/// Models of their own on several devices, trained by one process from the same lines.
TEST_F(RoundsOfAProgram, DevicesDontMultiplySteps) {
  const HeapId others[] = {build_.heap("torch.cuda", Level::framework, 3),
                           build_.heap("torch.cuda", Level::framework, 1)};
  const OriginId origins[] = {build_.origin(HeapId{1}), build_.origin(others[0]), build_.origin(others[1])};
  for (int i = 0; i < 6; ++i) {
    for (const OriginId origin : origins) {
      origin_ = origin;
      forward();
      backward();
      alloc(optimizer_);
    }
    // Threads run at the same time.
    for (const OriginId origin : origins) origin_ = origin, forward();
    for (const OriginId origin : origins) origin_ = origin, backward();
    for (int k = 0; k < 2; ++k)
      for (const OriginId origin : origins) origin_ = origin, alloc(optimizer_);
  }
  for (const HeapId heap : {HeapId{1}, others[0], others[1]}) {
    EXPECT_EQ(Analysis(build_.trace()).rounds(heap).source, RoundSource::optimizer);
    EXPECT_EQ(Analysis(build_.trace()).rounds(heap).count(), 12U);
  }
}

TEST_F(RoundsOfAProgram, DevicesInTurnEachHaveTheirSteps) {
  const HeapId other = build_.heap("torch.cuda", Level::framework, 1);
  const OriginId origins[] = {build_.origin(HeapId{1}), build_.origin(other)};
  for (int i = 0; i < 18; ++i) {
    origin_ = origins[i % 3 == 0 ? 1 : 0];
    forward();
    backward();
    alloc(optimizer_);
  }
  EXPECT_EQ(rounds().count(), 12U);
  EXPECT_EQ(Analysis(build_.trace()).rounds(other).count(), 6U);
}

/// Replicas have no optimizer, and pass back each part of a batch.
TEST_F(RoundsOfAProgram, ADeviceWithoutOptimizerTakesPartInTheStepsOfTheOthers) {
  const HeapId replica = build_.heap("torch.cuda", Level::framework, 1);
  const OriginId origins[] = {build_.origin(HeapId{1}), build_.origin(replica)};
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 4; ++k) {
      for (const OriginId origin : origins) origin_ = origin, forward();
      for (const OriginId origin : origins) origin_ = origin, backward();
    }
    origin_ = origins[0];
    alloc(optimizer_);
  }
  for (const HeapId heap : {HeapId{1}, replica}) EXPECT_EQ(Analysis(build_.trace()).rounds(heap).count(), 6U);
}

TEST_F(RoundsOfAProgram, AStepOfTrainingBeforeManyCallsIsOneOfTheSteps) {
  forward();
  backward();
  alloc(optimizer_);
  for (int i = 0; i < 10; ++i) {
    alloc(loss_);
    forward();
  }
  EXPECT_EQ(rounds().source, RoundSource::modules);
  EXPECT_EQ(rounds().count(), 11U);
}

TEST_F(RoundsOfAProgram, OneLoopOfCallsAfterAnotherMakesTheStepsOfBoth) {
  const StackId warm_up = stack_of_module("7", "11");
  for (const StackId site : {warm_up, warm_up, warm_up, layer_, layer_, layer_, layer_, layer_}) {
    alloc(loss_);
    alloc(site);
  }
  EXPECT_EQ(rounds().source, RoundSource::modules);
  EXPECT_EQ(rounds().count(), 8U);
  const Analysis analysis(build_.trace());
  EXPECT_EQ(analysis.steps(HeapId{1}).ends.size(), 8U) << "the last one ends with the recording";
  EXPECT_EQ(analysis.steps(HeapId{1}).ends.back() + 1, build_.trace().events.count());
}

TEST_F(RoundsOfAProgram, TwoCallsInAStepMakeOne) {
  const StackId second = stack_of_module("7", "21");
  for (int i = 0; i < 5; ++i)
    for (const StackId site : {layer_, second}) {
      alloc(loss_);
      alloc(site);
    }
  EXPECT_EQ(rounds().count(), 5U);
}

TEST_F(RoundsOfAProgram, AreNamedByTheCallThatRecursMost) {
  const StackId warm_up = stack_of_module("7", "11");
  alloc(warm_up);
  for (int i = 0; i < 6; ++i) {
    alloc(loss_);
    forward();
  }
  EXPECT_EQ(rounds().source, RoundSource::modules);
  EXPECT_EQ(rounds().name, "train.py:20");
}

/// A timeline of PyTorch's profiler, which tells the category of each allocation and has no stacks.
class RoundsOfATimeline : public ::testing::Test {
 protected:
  RoundsOfATimeline() { build_.trace().header.source = profiled_source; }
  void alloc(std::string_view category) {
    const OriginId origin = build_.origin(HeapId{1});
    build_.trace().tables.origins[index(origin)].metadata = build_.string(category);
    build_.alloc(origin, {next_ += 512}, 512_B, StackId::none);
  }
  void forward() {
    for (int i = 0; i < 4; ++i) alloc("activation");
  }
  void backward(bool makes_gradients) {
    for (int i = 0; i < 4; ++i) {
      alloc("autograd_detail");
      if (makes_gradients) alloc("gradient");
    }
  }
  Rounds rounds() { return Analysis(build_.trace()).rounds(HeapId{1}); }

  TraceBuilder build_;
  std::uint64_t next_ = 4096;
};

TEST_F(RoundsOfATimeline, PassesThatAddToGradientsAreOfTheStepThatMadeThem) {
  std::vector<std::uint32_t> ends;
  for (int pass = 0; pass < 9; ++pass) {
    if (pass > 0 && pass % 4 == 0) ends.push_back(static_cast<std::uint32_t>(build_.trace().events.count()));
    forward();
    backward(pass % 4 == 0);
    if (pass % 4 == 3) alloc("optimizer_state");
  }
  EXPECT_EQ(rounds().ends, ends);
  EXPECT_EQ(rounds().count(), 2U);
  EXPECT_TRUE(rounds().unfinished) << "it has one pass of four";
}

TEST_F(RoundsOfATimeline, PassesThatMakeGradientsAreSteps) {
  for (int pass = 0; pass < 9; ++pass) {
    forward();
    backward(true);
    alloc("optimizer_state");
  }
  EXPECT_EQ(text_of(rounds()), "9 steps, each a backward pass");
  forward();
  EXPECT_EQ(rounds().count(), 9U);
  EXPECT_TRUE(rounds().unfinished);
}

/// A server such as Triton enters Python from native code, as autograd's engine does.
TEST(RoundsOfAServer, AreCallsWhereNothingShowsABackwardPass) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const StackId layer =
      build.stack({"forward@site-packages/torch/nn/modules/linear.py:134",
                   "_call_impl@site-packages/torch/nn/modules/module.py:1762", "forward@model.py:7",
                   "_call_impl@site-packages/torch/nn/modules/module.py:1762", "execute@model.py:55"});
  const StackId output = build.stack({"execute@model.py:56"});
  std::uint64_t next = 4096;
  for (int i = 0; i < 8; ++i) {
    build.free(build.alloc(origin, {next += 512}, 512_B, layer));
    build.alloc(origin, {next += 512}, 512_B, output);
  }
  const Rounds rounds = Analysis(build.trace()).rounds(HeapId{1});
  EXPECT_EQ(rounds.source, RoundSource::modules);
  EXPECT_EQ(rounds.count(), 8U);
}

TEST_F(RoundsOfAProgram, AFewMarksAreAFewSteps) {
  for (int i = 0; i < 5; ++i) {
    forward();
    mark("step");
    EXPECT_EQ(rounds().count(), static_cast<std::uint32_t>(i + 1));
    EXPECT_EQ(rounds().suffice(), i >= 3);
    if (i == 0) {
      EXPECT_EQ(text_of(rounds()), "not judged: the recording holds 1 step");
    }
  }
}

TEST_F(RoundsOfAProgram, MarksThatAreOlderThanTheEventsOfARingEndNoSteps) {
  for (int i = 0; i < 5; ++i) mark("step");
  for (int i = 0; i < 2; ++i) {
    forward();
    mark("step");
  }
  mark("step");
  EXPECT_EQ(rounds().count(), 2U);
}

TEST_F(RoundsOfAProgram, AStepIsAPassOfTheOptimizerHoweverManyBackwardPassesItTakes) {
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 3; ++k) {
      forward();
      backward();
    }
    alloc(optimizer_);
    alloc(optimizer_);
  }
  EXPECT_EQ(rounds().source, RoundSource::optimizer);
  EXPECT_EQ(rounds().count(), 6U);
  EXPECT_FALSE(rounds().unfinished);
  forward();
  EXPECT_TRUE(rounds().unfinished);
}

TEST_F(RoundsOfAProgram, AnOptimizerThatAllocatesItsStateOnlyLeavesStepsToBackwardPasses) {
  for (int i = 0; i < 6; ++i) {
    forward();
    backward();
    if (i == 0) keep(optimizer_);
  }
  EXPECT_EQ(rounds().source, RoundSource::backward);
  EXPECT_EQ(rounds().count(), 6U);
}

TEST_F(RoundsOfAProgram, FreeingGradientsIsNoPassOfTheOptimizer) {
  const StackId zero_grad =
      build_.stack({"zero_grad@site-packages/torch/optim/optimizer.py:1", "main@train.py:21", "<module>@train.py:50"});
  for (int i = 0; i < 5; ++i) {
    forward();
    alloc(zero_grad);
    backward();
    alloc(optimizer_);
  }
  EXPECT_EQ(rounds().count(), 5U);
}

TEST_F(RoundsOfAProgram, LayersOfOneCallAreNoSteps) {
  for (int k = 0; k < 40; ++k) keep(k % 2 == 0 ? layer_ : other_layer_);
  EXPECT_EQ(rounds().source, RoundSource::modules);
  EXPECT_EQ(rounds().count(), 1U);
  EXPECT_EQ(text_of(rounds()), "not judged: the recording holds 1 step");
}

TEST_F(RoundsOfAProgram, CallsOfTheModelAreSteps) {
  for (int i = 0; i < 12; ++i) {
    alloc(load_);
    forward();
  }
  EXPECT_EQ(rounds().source, RoundSource::modules);
  EXPECT_EQ(rounds().count(), 12U);
  EXPECT_EQ(text_of(rounds()), "12 steps, each a call of the model at train.py:20");
}

TEST_F(RoundsOfAProgram, CallsInTwoLoopsAreNamedByBothLines) {
  const auto loop = [&](const std::string& line, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      alloc(load_);
      alloc(stack_of_module("7", line));
      alloc(stack_of_module("8", line));
    }
  };
  loop("30", 5);
  loop("20", 12);
  EXPECT_EQ(text_of(rounds()), "17 steps, each a call of the model at train.py:20 and train.py:30");
  loop("40", 4);
  EXPECT_EQ(text_of(rounds()), "21 steps, each a call of the model at train.py:20 and 2 other lines");
}

TEST_F(RoundsOfAProgram, PartsOfAModelThatIsNotSeenItselfAreOneStep) {
  for (const std::string line : {"20", "21", "22", "23", "24"}) {
    alloc(stack_of_module("7", line));
    alloc(load_);
  }
  EXPECT_EQ(rounds().count(), 1U);
}

TEST_F(RoundsOfAProgram, FunctionsThatCallLinearLayersAreNoModels) {
  const StackId linear = build_.stack({"forward@site-packages/torch/nn/modules/linear.py:134",
                                       "_call_impl@site-packages/torch/nn/modules/module.py:1762", "block@net.py:3",
                                       "main@train.py:20", "<module>@train.py:50"});
  for (int k = 0; k < 40; ++k) {
    keep(linear);
    alloc(loss_);
  }
  EXPECT_FALSE(rounds().suffice());
}

/// A loop over data that is on the GPU already, and keeps what it computes: nothing happens outside modules.
TEST_F(RoundsOfAProgram, ALossEndsTheCallOfTheModel) {
  const StackId loss = build_.stack(
      {"cross_entropy@site-packages/torch/nn/functional.py:3029", "forward@site-packages/torch/nn/modules/loss.py:1179",
       "_call_impl@site-packages/torch/nn/modules/module.py:1762", "main@train.py:21", "<module>@train.py:50"});
  for (int i = 0; i < 12; ++i) {
    for (int k = 0; k < 6; ++k) keep(k % 2 == 0 ? layer_ : other_layer_);
    keep(loss);
  }
  EXPECT_EQ(text_of(rounds()), "12 steps, each a call of the model at train.py:20");
}

TEST_F(RoundsOfAProgram, WhatIsOlderThanTheRecordingIsNoEvidence) {
  const std::string before = std::string(preexisting_frame) + "@:0";
  const StackId of_backward = build_.stack({"torch::autograd::Engine::evaluate_function@engine.cpp:1", before});
  const StackId of_optimizer = build_.stack({"step@site-packages/torch/optim/adamw.py:1", "main@train.py:22", before});
  for (int i = 0; i < 20; ++i) {
    keep(of_backward);
    keep(of_optimizer);
  }
  forward();
  backward();
  alloc(optimizer_);
  EXPECT_EQ(rounds().count(), 1U);
}

TEST_F(RoundsOfAProgram, AFailureCutsItsRoundOff) {
  for (int i = 0; i < 7; ++i) {
    alloc(load_);
    forward();
  }
  EXPECT_EQ(rounds().count(), 7U);
  fail();
  EXPECT_EQ(rounds().count(), 6U);
  EXPECT_TRUE(rounds().unfinished);
}

TEST_F(RoundsOfAProgram, WithoutModulesTheOutermostLinesThatRecurAreSteps) {
  const StackId inner[] = {build_.stack({"block@net.py:3", "step@train.py:30", "<module>@train.py:60"}),
                           build_.stack({"block@net.py:4", "step@train.py:30", "<module>@train.py:60"})};
  const StackId update = build_.stack({"update@train.py:40", "<module>@train.py:61"});
  for (int k = 0; k < 10; ++k) keep(build_.stack({"weights@train.py:5", "<module>@train.py:55"}));
  for (int i = 0; i < 9; ++i) {
    for (int k = 0; k < 12; ++k) alloc(inner[k % 2]);
    alloc(update);
  }
  EXPECT_EQ(rounds().source, RoundSource::repetition);
  EXPECT_EQ(rounds().count(), 9U);
  EXPECT_EQ(rounds().name, "train.py:60");
  EXPECT_TRUE(rounds().last_is_open);
  EXPECT_EQ(text_of(rounds()), "9 steps, found by what recurs at train.py:60");
}

TEST_F(RoundsOfAProgram, ALoopThatKeepsWhatItAllocatesBuildsSomething) {
  for (int i = 0; i < 64; ++i) {
    keep(load_, 1_MiB);
    alloc(loss_);
  }
  EXPECT_FALSE(rounds().suffice());
}

TEST_F(RoundsOfAProgram, CapturesOfGraphsAreNoSteps) {
  capture_graphs(loss_, load_);
  EXPECT_EQ(rounds().source, RoundSource::none);
  for (int i = 0; i < 20; ++i) {
    alloc(load_, 500_MiB);
    alloc(loss_);
  }
  EXPECT_EQ(rounds().source, RoundSource::repetition);
  EXPECT_EQ(rounds().count(), 20U);
}

TEST_F(RoundsOfAProgram, CallsOfTheModelInCapturesAreNoSteps) {
  capture_graphs(layer_, other_layer_);
  EXPECT_EQ(rounds().source, RoundSource::none);
  for (int i = 0; i < 20; ++i) {
    forward();
    alloc(loss_);
  }
  EXPECT_EQ(rounds().source, RoundSource::modules);
  EXPECT_EQ(rounds().count(), 20U);
}

TEST_F(RoundsOfAProgram, LayersBeforeAFailureAreNoSteps) {
  for (int i = 0; i < 64; ++i) {
    keep(load_, 1_MiB);
    alloc(loss_, 600_KiB);
  }
  EXPECT_EQ(rounds().count(), 64U);
  fail();
  EXPECT_EQ(rounds().source, RoundSource::none);
  EXPECT_EQ(text_of(rounds()), "not judged: the recording shows no loop of steps");
}

TEST_F(RoundsOfAProgram, WithoutStacksSizesRecur) {
  for (int i = 0; i < 20; ++i) {
    for (const Bytes size : {7000_B, 512_B, 512_B, 9000_B}) alloc(StackId::none, size);
  }
  EXPECT_EQ(rounds().source, RoundSource::repetition);
  EXPECT_EQ(rounds().count(), 20U);
  EXPECT_EQ(rounds().name, "");
}

/// The number of requests between two of one size, in each step.
class RoundsOfSizes : public RoundsOfAProgram, public ::testing::WithParamInterface<int> {};

TEST_P(RoundsOfSizes, WhatAStepRequestsTwiceBeginsItOnce) {
  for (int i = 0; i < 9; ++i) {
    alloc(StackId::none, 7000_B);
    for (int k = 0; k < GetParam(); ++k) alloc(StackId::none);
    alloc(StackId::none, 7000_B);
    for (const Bytes size : {9000_B, 9000_B, 600_B, 700_B}) alloc(StackId::none, size);
  }
  EXPECT_EQ(rounds().source, RoundSource::repetition);
  EXPECT_EQ(rounds().count(), 9U);
}

INSTANTIATE_TEST_SUITE_P(Distances, RoundsOfSizes, ::testing::Values(0, 1, 3, 40));

TEST_F(RoundsOfAProgram, RoundsThatDifferNowAndThenAreSteps) {
  for (std::uint64_t i = 0; i < 20; ++i)
    for (const Bytes size : {7000_B, 600_B + Bytes{i * i}, 512_B, 9000_B}) alloc(StackId::none, size);
  EXPECT_EQ(rounds().count(), 20U);
}

TEST_F(RoundsOfAProgram, WhatDoesNotRecurIsNoLoop) {
  for (std::uint64_t i = 0; i < 1000; ++i) alloc(load_, Bytes{1 + i * i});
  EXPECT_EQ(rounds().source, RoundSource::none);
  EXPECT_EQ(rounds().count(), 0U);
}

}  // namespace
}  // namespace memreel
