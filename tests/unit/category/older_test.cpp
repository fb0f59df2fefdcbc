// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/category/late_serving.h"

namespace memreel {
namespace {

using testing::expect_category;
using testing::LateServing;
using testing::Program;
using P = Program;

/// How a program trained before its recording began, and trains in it.
struct Style {
  std::vector<std::uint64_t> parameters{4096, 64, 1024};  // [KiB]
  std::uint32_t state = 0;                                // copies of each parameter
  std::uint64_t state_times = 1, state_per = 1;  // the size of state: a parameter's times this, divided by that
  bool master_weights = false;                   // a copy of the size of state
  bool moving_average = false;
  bool adds_gradients = false;  // the recording adds to gradients that are older
};

/// A program whose recording begins in its second step.
struct LateTraining {
  Program program;
  Style style;
  std::vector<AllocationId> parameters, averages, masters, states, old_gradients, gradients;

  explicit LateTraining(Style chosen) : style(std::move(chosen)) {
    const auto older = [&](std::vector<AllocationId>& ids, std::uint64_t times = 1, std::uint64_t per = 1) {
      for (const std::uint64_t kib : style.parameters) ids.push_back(program.alloc(kib * times / per, P::older()));
    };
    older(parameters);
    if (style.moving_average) older(averages);
    if (style.master_weights) older(masters, style.state_times, style.state_per);
    older(old_gradients);
    for (std::uint32_t copy = 0; copy < style.state; ++copy) older(states, style.state_times, style.state_per);
  }

  void step(bool drops_old_gradients) {
    if (drops_old_gradients)
      for (const AllocationId id : old_gradients) program.free(id, P::zero_grad());
    const AllocationId input = program.alloc(96, P::user(10));
    const AllocationId saved = program.alloc(500, P::module(12));
    program.pass(P::user(21));
    const AllocationId scratch = program.alloc(500, P::engine());
    program.free(saved, P::engine());
    std::vector<AllocationId> made;
    for (auto kib = style.parameters.rbegin(); kib != style.parameters.rend(); ++kib) {
      made.push_back(program.alloc(*kib, P::engine()));
      if (style.adds_gradients) program.free(made.back(), P::engine());
    }
    program.free(scratch, P::engine());
    program.pass(P::optimizer("adam", 900));
    if (!style.adds_gradients) {
      gradients.insert(gradients.end(), made.begin(), made.end());
      for (const AllocationId id : made) program.free(id, P::zero_grad());
    }
    program.free(input, P::user(10));
  }

  Categories run() {
    step(!style.adds_gradients);
    step(false);
    return program.classify();
  }
};

void expect_older(Style style) {
  LateTraining training(std::move(style));
  const Categories categories = training.run();
  expect_category(categories, training.parameters, Category::parameter);
  expect_category(categories, training.averages, Category::parameter_copy);
  expect_category(categories, training.masters, Category::parameter_copy);
  expect_category(categories, training.states, Category::optimizer_state);
  expect_category(categories, training.old_gradients, Category::gradient);
  expect_category(categories, training.gradients, Category::gradient);
}

TEST(Older, OneCopyIsParameters) { expect_older({}); }
TEST(Older, TwoAreParametersAndMomentum) { expect_older({.state = 1}); }
TEST(Older, ThreeAreParametersAndAdamsState) { expect_older({.state = 2}); }
TEST(Older, FourAreAlsoAMovingAverage) { expect_older({.state = 2, .moving_average = true}); }
TEST(Older, GradientsThatAreAddedToAreACopyToo) { expect_older({.state = 2, .adds_gradients = true}); }
TEST(Older, HalfPrecisionHasStateOfTwiceTheSize) { expect_older({.state = 2, .state_times = 2}); }
TEST(Older, MasterWeightsHaveTheSizeOfState) { expect_older({.state = 2, .state_times = 2, .master_weights = true}); }
TEST(Older, StateInEightBitIsAQuarterOfTheSize) { expect_older({.state = 2, .state_per = 4}); }
TEST(Older, ManyParametersOfOneSize) { expect_older({.parameters = std::vector<std::uint64_t>(24, 2048), .state = 2}); }

TEST(Older, AnOptimizerThatReplacesItsStateFreesTheOldOne) {
  LateTraining training({.state = 2, .adds_gradients = true});
  training.step(false);
  std::vector<AllocationId> made;
  for (std::size_t i = 0; i < training.states.size(); ++i) {
    const std::uint64_t kib = training.style.parameters[i % training.style.parameters.size()];
    made.push_back(training.program.alloc(kib, P::optimizer("step", 75)));
    training.program.free(training.states[i], P::optimizer("step", 75));
  }
  const Categories categories = training.program.classify();
  expect_category(categories, training.states, Category::optimizer_state);
  expect_category(categories, made, Category::optimizer_state);
  expect_category(categories, training.parameters, Category::parameter);
  expect_category(categories, training.old_gradients, Category::gradient);
}

TEST(Older, TheFirstStepInTheRecordingMakesTheState) {
  LateTraining training({});
  for (const std::uint64_t kib : training.style.parameters)
    training.states.push_back(training.program.alloc(kib, P::state()));
  const Categories categories = training.run();
  expect_category(categories, training.parameters, Category::parameter);
  expect_category(categories, training.states, Category::optimizer_state);
}

TEST(Older, FrozenWeightsHaveNoGradientsAndAreHeldThroughout) {
  LateTraining training({.parameters = {64, 32, 64, 32, 64, 32}, .state = 2});
  std::vector<AllocationId> frozen;
  for (int layer = 0; layer < 6; ++layer)
    for (const std::uint64_t kib : {9000U, 3000U}) frozen.push_back(training.program.alloc(kib, P::older()));
  const Categories categories = training.run();
  expect_category(categories, frozen, Category::parameter);
  expect_category(categories, training.parameters, Category::parameter);
  expect_category(categories, training.states, Category::optimizer_state);
}

TEST(Older, WeightsOfAModelThatIsOnlyCalledAreHeldThroughout) {
  LateServing serving;
  const AllocationId freed = serving.program.alloc(50, P::older());
  const AllocationId pool = serving.program.alloc(4'000'000, P::older());  // larger than all that repeats
  const AllocationId workspace = serving.program.alloc(8320, P::older());
  for (int call = 0; call < 3; ++call) serving.forward(false);
  serving.program.free(freed, P::user(30));
  serving.forward(false);
  const Categories categories = serving.program.classify();
  expect_category(categories, serving.weights, Category::parameter);
  EXPECT_EQ(row_of(categories.evidence[0]).name, "held_throughout");
  expect_category(categories, {freed, pool}, Category::unknown);
  expect_category(categories, {workspace}, Category::workspace);
}

TEST(Older, BlocksOfOneSizeMayBeACache) {
  LateServing serving(0);
  std::vector<AllocationId> blocks;
  for (int layer = 0; layer < 24; ++layer) blocks.push_back(serving.program.alloc(65536, P::older()));
  serving.forward(false);
  expect_category(serving.program.classify(), blocks, Category::unknown);
}

TEST(Older, AfterTrainingEachSizeIsThereThreeTimes) {
  LateServing serving(3);
  serving.forward(false);
  const Categories categories = serving.program.classify();
  const auto third = serving.weights.begin() + static_cast<std::ptrdiff_t>(serving.weights.size() / 3);
  expect_category(categories, {serving.weights.begin(), third}, Category::parameter);
  expect_category(categories, {third, serving.weights.end()}, Category::optimizer_state);
}

TEST(Older, ProgramsWithoutModulesAreNotGuessedAt) {
  Program program;
  std::vector<AllocationId> blocks;
  for (int layer = 0; layer < 12; ++layer)
    for (const std::uint64_t kib : {9216U, 2304U}) blocks.push_back(program.alloc(kib, P::older()));
  program.pass(P::user(3));
  expect_category(program.classify(), blocks, Category::unknown);
}

}  // namespace
}  // namespace memreel
