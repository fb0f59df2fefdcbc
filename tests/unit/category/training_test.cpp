// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/category/torch_program.h"

namespace memreel {
namespace {

using testing::Program;
using P = Program;

/// A training loop with optional parts: three steps, modeled on recorded programs.
struct Training {
  Program program;
  std::vector<AllocationId> parameters, gradients, activations, inputs, temporaries, states;

  void setup() {
    parameters = {program.alloc(4096, P::parameter()), program.alloc(64, P::parameter())};
    program.alloc(8, P::buffer());
  }
  AllocationId input() {
    inputs.push_back(program.alloc(96, P::user(10)));
    return inputs.back();
  }
  void forward() {
    temporaries.push_back(program.alloc(700, P::module(11)));
    activations.push_back(program.alloc(500, P::module(12)));
    program.free(temporaries.back(), P::module(13));
    activations.push_back(program.alloc(40, P::user(21)));  // the loss
  }
  void backward(bool makes_gradients) {
    const AllocationId first = program.alloc(500, P::engine());
    for (const AllocationId id : {activations[activations.size() - 2], activations.back()})
      program.free(id, P::engine());
    if (makes_gradients)
      for (const std::uint64_t kib : {4096U, 64U}) gradients.push_back(program.alloc(kib, P::engine()));
    program.free(first, P::engine());
    temporaries.push_back(first);
  }
  void step() {
    temporaries.push_back(program.alloc(4096, P::optimizer("_multi_tensor_adam", 700)));
    if (states.empty())
      for (const std::uint64_t kib : {4096U, 64U, 4096U, 64U}) states.push_back(program.alloc(kib, P::state()));
    program.free(temporaries.back(), P::optimizer("adam", 900));
  }
  void zero_grad() {
    for (std::size_t i = gradients.size() - 2; i < gradients.size(); ++i) program.free(gradients[i], P::zero_grad());
  }
};

void expect(const Categories& categories, const std::vector<AllocationId>& ids, Category category) {
  for (const AllocationId id : ids)
    EXPECT_EQ(name_of(categories.category(id)), name_of(category))
        << "allocation " << index(id) << ": " << row_of(categories.evidence[index(id)]).name;
}

void expect_all(Training& training) {
  const Categories categories = training.program.classify();
  expect(categories, training.parameters, Category::parameter);
  expect(categories, training.gradients, Category::gradient);
  expect(categories, training.activations, Category::activation);
  expect(categories, training.inputs, Category::input);
  expect(categories, training.temporaries, Category::temporary);
  expect(categories, training.states, Category::optimizer_state);
}

TEST(Training, EachPartOfAStepIsNamed) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
  EXPECT_EQ(t.program.classify().category(AllocationId{2}), Category::buffer);
}

TEST(Training, FusedOptimizersMakeTheirStateAlone) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    if (i == 0)  // moments, and on the device also each parameter's step count
      for (const std::uint64_t kib : {1U, 4096U, 4096U, 1U, 64U, 64U})
        t.states.push_back(t.program.alloc(kib, P::state()));
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
}

TEST(Training, GradientsThatAreSetToZeroStay) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(i == 0);
    t.step();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
}

TEST(Training, GradientsAccumulateOverSmallerBatches) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    for (int part = 0; part < 3; ++part) {
      const AllocationId input = t.input();
      t.forward();
      t.backward(part == 0);
      if (part > 0) {  // added to those of the first micro batch
        const AllocationId added = t.program.alloc(4096, P::engine());
        t.program.free(added, P::engine());
        t.temporaries.push_back(added);
      }
      t.program.free(input, P::user(42));
    }
    t.step();
    t.zero_grad();
  }
  expect_all(t);
}

TEST(Training, EvaluationBetweenStepsKeepsNothingForABackwardPass) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
    const AllocationId held_out = t.input();
    const AllocationId hidden = t.program.alloc(500, P::module(12));
    t.program.free(hidden, P::module(13));
    t.temporaries.push_back(hidden);
    t.program.free(held_out, P::user(50));
  }
  expect_all(t);
}

TEST(Training, CheckpointingRepeatsForwardPasses) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    const AllocationId again = t.program.alloc(800, P::recompute());
    const AllocationId scratch = t.program.alloc(900, P::recompute());
    t.program.free(scratch, P::recompute());
    t.program.free(again, P::engine());
    t.activations.insert(t.activations.end() - 2, again);
    t.temporaries.push_back(scratch);
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
}

TEST(Training, FrozenParametersHaveNoGradients) {
  Training t;
  t.setup();
  t.parameters.push_back(t.program.alloc(16384, P::parameter()));
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
}

TEST(Training, ScalerKeepsItsScaleAndUnscalesInTheStep) {
  Training t;
  t.setup();
  t.states.push_back(t.program.alloc(1, P::within({"_lazy_init_scale_growth_tracker@torch/amp/grad_scaler.py:180",
                                                   "scale@torch/amp/grad_scaler.py:200"},
                                                  P::user(22))));
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    const P::Stack unscale = P::within({"_unscale_grads_@torch/amp/grad_scaler.py:250"}, P::user(23));
    t.temporaries.push_back(t.program.alloc(2, unscale));
    t.program.free(t.temporaries.back(), unscale);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
}

TEST(Training, AMovingAverageIsACopyOfTheParameters) {
  Training t;
  t.setup();
  const AllocationId copied = t.program.alloc(
      4096, P::within({"__deepcopy__@torch/nn/parameter.py:79", "deepcopy@python3.12/copy.py:143"}, P::user(2)));
  const std::vector<AllocationId> cloned{t.program.alloc(4096, P::user(3)), t.program.alloc(64, P::user(3))};
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
  const Categories categories = t.program.classify();
  EXPECT_EQ(categories.category(copied), Category::parameter_copy);
  expect(categories, cloned, Category::parameter_copy);
}

TEST(Training, ParametersMadeOnTheDeviceAreKnownByTheirGradients) {
  Training t;
  t.parameters = {t.program.alloc(4096, P::within({"__init__@model.py:5"}, P::user(1))),
                  t.program.alloc(64, P::within({"__init__@torch/nn/modules/linear.py:100"}, P::user(1)))};
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  expect_all(t);
}

/// Of an optimizer of the program's own, whose lines are 40 and following.
P::Stack own_step(int line) {
  return P::within({"step@optimizer.py:" + std::to_string(line), "wrapper@torch/optim/optimizer.py:533"}, P::user(40));
}
P::Stack constructor_in(const std::string& file) { return P::within({"__init__@" + file + ":5"}, P::user(1)); }

/// `p.data = p.data - ...` in two lines, and its state in locals that are freed when the next parameter's are made.
void rebind(Training& t, AllocationId& parameter, AllocationId& state, std::uint64_t kib) {
  const AllocationId scaled = t.program.alloc(kib, own_step(50));
  const AllocationId new_state = t.program.alloc(kib, own_step(51));
  t.program.free(scaled, own_step(51));
  const AllocationId between = t.program.alloc(kib, own_step(63));
  t.program.free(parameter, own_step(63));
  parameter = t.program.alloc(kib, own_step(64));
  t.program.free(between, own_step(64));
  t.program.free(state, own_step(49));
  state = new_state;
  t.temporaries.insert(t.temporaries.end(), {scaled, between});
}

TEST(Training, AnOptimizerThatBindsNewMemoryToParametersMakesNoState) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place ? "only the state is bound anew" : "both are");
    Training t;
    std::vector<AllocationId> parameters, states;
    for (const std::uint64_t kib : {4096U, 64U}) parameters.push_back(t.program.alloc(kib, constructor_in("model.py")));
    for (const std::uint64_t kib : {4096U, 64U}) states.push_back(t.program.alloc(kib, constructor_in("optimizer.py")));
    t.parameters = parameters;
    t.states = states;
    for (int i = 0; i < 3; ++i) {
      const AllocationId input = t.input();
      t.forward();
      t.backward(true);
      for (std::size_t p = 0; p < 2; ++p) {
        const std::uint64_t kib = p == 0 ? 4096 : 64;
        if (in_place) {
          const AllocationId made = t.program.alloc(kib, own_step(51));
          t.program.free(states[p], own_step(49));
          states[p] = made;
        } else {
          rebind(t, parameters[p], states[p], kib);
          t.parameters.push_back(parameters[p]);
        }
        t.states.push_back(states[p]);
      }
      t.zero_grad();
      t.program.free(input, P::user(42));
    }
    if (in_place) t.states.erase(t.states.begin(), t.states.begin() + 2);  // made by a constructor, and gone at once
    expect_all(t);
  }
}

TEST(Training, ABatchOfTheSizeOfABiasIsNoParameterThatTheOptimizerBindsAnew) {
  for (const bool frees_have_stacks : {true, false}) {
    SCOPED_TRACE(frees_have_stacks ? "frees have stacks" : "frees have none");
    Training t;
    const std::vector<std::uint64_t> sizes{4096, 4096, 64};
    for (const std::uint64_t kib : sizes) t.parameters.push_back(t.program.alloc(kib, P::parameter()));
    const auto free = [&](AllocationId id, const P::Stack& stack) {
      t.program.free(id, frees_have_stacks ? stack : P::Stack{});
    };
    for (int i = 0; i < 6; ++i) {
      const AllocationId batch = t.program.alloc(64, P::user(10));
      t.inputs.push_back(batch);
      t.activations.push_back(t.program.alloc(500, P::module()));
      std::vector<AllocationId> gradients;
      for (const std::uint64_t kib : sizes) gradients.push_back(t.program.alloc(kib, P::engine()));
      free(t.activations.back(), P::engine());
      t.gradients.insert(t.gradients.end(), gradients.begin(), gradients.end());
      for (const int line : {178, 182})
        for (const std::uint64_t kib : sizes)
          if (i == 0) t.states.push_back(t.program.alloc(kib, P::optimizer("_init_group", line)));
      free(t.program.alloc(1, P::optimizer("adam", 900)), P::optimizer("adam", 900));
      for (const AllocationId id : gradients) free(id, P::zero_grad());
      free(batch, P::user(10));
    }
    expect_all(t);
  }
}

TEST(Training, ABufferOfParametersIsMadeBeforeThatOfTheirGradients) {
  const auto buffer = [](int line) {
    return P::within({"__init__@megatron/core/distributed/param_and_grad_buffer.py:" + std::to_string(line)},
                     P::user(1));
  };
  for (const bool distributed : {true, false}) {
    Program program;
    std::vector<AllocationId> parameters, gradients;
    for (const std::uint64_t kib : {4096U, 64U}) {  // of the dense layers, and of the experts
      if (distributed) parameters.push_back(program.alloc(kib, buffer(586)));
      gradients.push_back(program.alloc(2 * kib, buffer(592)));
    }
    for (int i = 0; i < 3; ++i) {
      program.pass(P::module());
      program.pass(P::engine());
    }
    const Categories categories = program.classify();
    expect(categories, parameters, Category::parameter);
    expect(categories, gradients, Category::gradient);
  }
}

TEST(Training, CapturedStepsKeepTheirGradientsInThePool) {
  Training t;
  t.setup();
  const AllocationId fixed = t.program.alloc(96, P::user(10));
  const PoolId pool = t.program.private_pool();
  const P::Stack capture = P::within({"capture_begin@torch/cuda/graphs.py:115"}, P::user(30));
  t.program.pass(capture);
  const AllocationId activation = t.program.alloc(500, P::module(12), pool);
  const AllocationId output = t.program.alloc(40, P::module(14), pool);
  t.program.free(activation, P::engine());
  t.gradients = {t.program.alloc(4096, P::engine(), pool), t.program.alloc(64, P::engine(), pool)};
  t.program.pass(P::zero_grad());
  t.program.pass(P::module(12));
  const Categories categories = t.program.classify();
  expect(categories, t.gradients, Category::gradient);
  expect(categories, {activation}, Category::activation);
  expect(categories, {fixed}, Category::input);
  expect(categories, {output}, Category::graph_pool);
}

TEST(Training, BucketsOfDistributedDataParallelAreCommunicationBesideGradients) {
  const P::Stack helper = P::within({"_ddp_init_helper@torch/nn/parallel/distributed.py:1200"}, P::user(2));
  for (const bool views : {false, true}) {
    Training t;
    t.setup();
    const AllocationId bucket = t.program.alloc(4160, helper);
    for (int i = 0; i < 3; ++i) {
      const AllocationId input = t.input();
      t.forward();
      t.backward(!views);
      t.step();
      if (!views) t.zero_grad();
      t.program.free(input, P::user(42));
    }
    expect_all(t);
    EXPECT_EQ(t.program.classify().category(bucket), views ? Category::gradient : Category::communication);
  }
}

TEST(Training, ShardsAreGatheredAndReduced) {
  Training t;
  t.setup();
  const P::Stack gather =
      P::within({"alloc_all_gather_outputs@torch/distributed/fsdp/_fully_shard/_fsdp_param.py:500"}, P::module(11));
  const P::Stack reduce{"foreach_reduce@torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:400",
                        "apply@torch/autograd/function.py:311"};
  std::vector<AllocationId> gathered, reduced, buffers;
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    gathered.push_back(t.program.alloc(9000, gather));
    t.forward();
    t.program.free(gathered.back(), P::module(15));
    t.backward(false);
    buffers.push_back(t.program.alloc(9000, reduce));
    reduced.push_back(t.program.alloc(4500, reduce));
    t.program.free(buffers.back(), P::engine());
    t.step();
    t.program.free(reduced.back(), P::zero_grad());
    t.program.free(input, P::user(42));
  }
  expect_all(t);
  const Categories categories = t.program.classify();
  expect(categories, gathered, Category::parameter_copy);
  expect(categories, reduced, Category::gradient);
  expect(categories, buffers, Category::communication);
}

/// DataParallel splits the batch and copies the module in its own forward().
TEST(Training, ReplicasAreCopiesOfParametersAndPartsOfABatchAreInputs) {
  const auto below = [](const P::Stack& inner) {
    return P::within(inner, P::within({"forward@torch/nn/parallel/data_parallel.py:180",
                                       "_call_impl@torch/nn/modules/module.py:1790"},
                                      P::user(20)));
  };
  const P::Stack replicate =
      below({"broadcast_coalesced@torch/nn/parallel/comm.py:67", "Broadcast.forward@torch/nn/parallel/_functions.py:22",
             "_broadcast_coalesced_reshape@torch/nn/parallel/replicate.py:90",
             "DataParallel.replicate@torch/nn/parallel/data_parallel.py:200"});
  const P::Stack scatter =
      below({"scatter@torch/nn/parallel/comm.py:205", "Scatter.forward@torch/nn/parallel/_functions.py:102",
             "scatter.<locals>.scatter_map@torch/nn/parallel/scatter_gather.py:60",
             "DataParallel.scatter@torch/nn/parallel/data_parallel.py:210"});
  const P::Stack graphs = P::within(
      {"Data.to@torch_geometric/data/data.py:345", "DataParallel.scatter@torch_geometric/nn/data_parallel.py:99",
       "DataParallel.forward@torch_geometric/nn/data_parallel.py:89", "_call_impl@torch/nn/modules/module.py:1790"},
      P::user(20));
  for (const bool trains : {true, false}) {
    SCOPED_TRACE(trains ? "trains" : "only calls the model");
    Training t;
    std::vector<AllocationId> replicas;
    t.setup();
    for (int i = 0; i < 3; ++i) {
      for (const P::Stack& stack : {scatter, graphs}) t.inputs.push_back(t.program.alloc(96, stack));
      replicas.push_back(t.program.alloc(4160, replicate));
      if (trains) {
        t.forward();
        t.backward(true);
        t.step();
        t.zero_grad();
      } else {
        t.program.pass(P::module());
      }
      for (const AllocationId id : {replicas.back(), t.inputs.back(), t.inputs[t.inputs.size() - 2]})
        t.program.free(id, trains ? P::engine() : P::user(21));
    }
    expect_all(t);
    expect(t.program.classify(), replicas, Category::parameter_copy);
  }
}

TEST(Training, OptimizersInsideTheBackwardPassKeepTheirState) {
  Training t;
  t.setup();
  const P::Stack hooked{"_init_group@torch/optim/adam.py:178", "wrapper@torch/optim/optimizer.py:533",
                        "hook@train.py:5"};
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(false);
    if (i == 0) t.states = {t.program.alloc(4096, hooked), t.program.alloc(64, hooked)};
    t.program.free(input, P::user(42));
    t.program.pass(P::user(43));
  }
  expect_all(t);
}

TEST(Training, WorkspacesAreNotTakenForGradients) {
  Training t;
  t.setup();
  const AllocationId input = t.input();
  t.forward();
  const AllocationId workspace = t.program.alloc(32 << 10U, P::engine());
  t.backward(true);
  t.step();
  t.zero_grad();
  t.program.free(input, P::user(42));
  t.program.pass(P::module(12));
  EXPECT_EQ(t.program.classify().category(workspace), Category::workspace);
}

TEST(Training, WhatEveryStepKeepsIsNoWorkspaceWhateverItsSize) {
  Training t;
  t.setup();
  std::vector<AllocationId> kept;
  for (int step = 0; step < 5; ++step) {
    const AllocationId input = t.input();
    t.forward();
    kept.push_back(t.program.alloc(1 << 10U, P::module(17)));
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  const Categories categories = t.program.classify();
  for (const AllocationId id : kept) EXPECT_NE(categories.category(id), Category::workspace);
}

TEST(Training, WithoutStacksOfFreesThePassSaysWhoFreed) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  Events& events = t.program.build().trace().events;
  for (std::size_t i = 0; i < events.count(); ++i)
    if (events.kind(i) == EventKind::free_requested) events.set_stack(i, StackId::none);
  expect_all(t);
}

TEST(Training, WhatIsLiveWhenTheRecordingEndsIsLikeTheOthersOfItsPlace) {
  Training t;
  t.setup();
  for (int i = 0; i < 2; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  t.input();
  t.forward();
  expect_all(t);
}

TEST(Training, WhatIsLiveAtTheEndIsNoTemporary) {
  Training t;
  t.setup();
  std::vector<AllocationId> scratch;
  for (int i = 0; i < 3; ++i) {
    t.input();
    t.forward();
    scratch.push_back(t.program.alloc(9000, P::module(61)));
    if (i < 2) t.program.free(scratch.back(), P::module(61));
    if (i < 2) t.backward(true);
  }
  const Categories categories = t.program.classify();
  expect(categories, {scratch.begin(), scratch.end() - 1}, Category::temporary);
  expect(categories, {scratch.back()}, Category::unknown);
}

/// A list that grows, and a tensor that is replaced by a larger one; also with the size of a parameter.
TEST(Training, WhatStepsKeepIsNoInput) {
  for (const std::uint64_t size : {300U, 4096U}) {
    Training t;
    t.setup();
    std::vector<AllocationId> list, copies;
    for (int i = 0; i < 10; ++i) {
      const AllocationId input = t.input();
      t.forward();
      t.backward(true);
      t.step();
      t.zero_grad();
      t.program.free(input, P::user(42));
      list.push_back(t.program.alloc(size, P::user(50)));
      copies.push_back(t.program.alloc(100 * (static_cast<std::uint64_t>(i) + 1), P::user(51)));
      if (i > 0) t.program.free(copies[copies.size() - 2], P::user(51));
    }
    expect_all(t);
    const Categories categories = t.program.classify();
    expect(categories, list, Category::unknown);
    EXPECT_EQ(categories.category(copies[5]), Category::unknown);
  }
}

/// Outputs of an evaluation, from where training makes temporaries.
TEST(Training, WhatCallsKeepIsNotTemporary) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) {
    const AllocationId input = t.input();
    t.forward();
    t.backward(true);
    t.step();
    t.zero_grad();
    t.program.free(input, P::user(42));
  }
  std::vector<AllocationId> outputs;
  for (int i = 0; i < 8; ++i) {
    const AllocationId input = t.input();
    t.program.free(t.program.alloc(700, P::module(11)), P::module(13));
    outputs.push_back(t.program.alloc(700, P::module(11)));
    t.program.free(input, P::user(42));
  }
  expect_all(t);
  const Categories categories = t.program.classify();
  for (std::size_t i = 0; i + 3 < outputs.size(); ++i) EXPECT_EQ(categories.category(outputs[i]), Category::unknown);
}

/// Batches of a size that a parameter has in another precision, but not as often.
TEST(Training, DataLoadedBeforeTheStepsIsNoCopyOfTheParameters) {
  for (const std::uint64_t size : {4096U, 2048U}) {
    Training t;
    t.setup();
    std::vector<AllocationId> data;
    for (int i = 0; i < 12; ++i) data.push_back(t.program.alloc(size, P::user(3)));
    for (int i = 0; i < 3; ++i) {
      const AllocationId input = t.input();
      t.forward();
      t.backward(true);
      t.step();
      t.zero_grad();
      t.program.free(input, P::user(42));
    }
    expect_all(t);
    expect(t.program.classify(), data, Category::unknown);
  }
}

TEST(Training, PhasesFollowTheStep) {
  Training t;
  t.setup();
  t.input();
  t.forward();
  t.backward(true);
  t.step();
  const Categories categories = t.program.classify();
  const auto phase = [&](AllocationId id) { return categories.phase[index(id)]; };
  EXPECT_EQ(phase(t.parameters[0]), Phase::other);
  EXPECT_EQ(phase(t.inputs[0]), Phase::other);
  EXPECT_EQ(phase(t.activations[0]), Phase::forward);
  EXPECT_EQ(phase(t.activations[1]), Phase::forward);  // the loss
  EXPECT_EQ(phase(t.gradients[0]), Phase::backward);
  EXPECT_EQ(phase(t.states[0]), Phase::optimizer);
}

TEST(Phases, APassGoesOnUntilAnotherPhaseShows) {
  Program program;
  program.pass(Program::user(3));  // events 0, 1: nothing is known of them
  program.pass(Program::module());
  program.pass(Program::user(30));  // the loss
  program.pass(Program::engine());
  program.pass(Program::state());
  const Activity activity = find_activity(program.build().trace());
  const Phases& phases = activity.phases;
  EXPECT_THAT(phases.of_pass, ::testing::ElementsAre(Phase::other, Phase::forward, Phase::backward, Phase::optimizer));
  EXPECT_THAT(phases.begin_of_pass, ::testing::ElementsAre(0, 2, 6, 8));
  std::vector<std::uint32_t> pass_of;
  for (std::uint32_t event = 0; event < 10; ++event) pass_of.push_back(phases.pass_of(event));
  EXPECT_THAT(pass_of, ::testing::ElementsAre(0, 0, 1, 1, 1, 1, 2, 2, 3, 3));
  EXPECT_EQ(phases.of_event[4], Phase::forward) << "it computes the loss";
}

}  // namespace
}  // namespace memreel
