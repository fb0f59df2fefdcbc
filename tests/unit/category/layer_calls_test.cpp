// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/observations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/analysis/category/classify.h"
#include "tests/unit/category/torch_program.h"

namespace memreel {
namespace {

using testing::Program;
using Stack = Program::Stack;

/// A model whose forward() runs `x = block(x)` in a loop (model.py:30) and a head (model.py:40).
class Model {
 public:
  static Stack below(int line_of_model, int line_of_block) {
    return {"forward@torch/nn/modules/linear.py:134",
            "_call_impl@torch/nn/modules/module.py:1790",
            "forward@block.py:" + std::to_string(line_of_block),
            "_call_impl@torch/nn/modules/module.py:1790",
            "forward@model.py:" + std::to_string(line_of_model),
            "_call_impl@torch/nn/modules/module.py:1790",
            "train@train.py:20",
            "<module>@train.py:99"};
  }

  /// One forward pass over that many blocks, and a backward pass that frees what it kept.
  void step(int blocks, bool odd = false) {
    std::vector<AllocationId> kept;
    for (int block = 0; block < blocks; ++block)
      for (const int line : {11, 12, 12, 13})
        if (!odd || block != 1 || line != 13) kept.push_back(program_.alloc(64, below(30, line)));
    kept.push_back(program_.alloc(8, below(40, 50)));
    program_.pass(Program::engine());
    for (const AllocationId id : kept) program_.free(id, Program::engine());
    program_.pass(Program::state());
    made_.push_back(kept);
  }

  std::vector<std::string> layers(std::size_t step) {
    const Categories categories = program_.classify();
    const Trace& trace = program_.build().trace();
    std::vector<std::string> texts;
    for (const AllocationId id : made_.at(step))
      texts.push_back(layer_path(trace.tables, categories, trace.events.stack(trace.events.begin_of(id)),
                                 categories.calls.of(index(id))));
    return texts;
  }

 private:
  Program program_;
  std::vector<std::vector<AllocationId>> made_;
};

TEST(LayerCalls, ALoopOverBlocksIsNumberedByTheTimesThatItsLineRan) {
  Model model;
  model.step(3);
  model.step(3);
  for (const std::size_t step : {0U, 1U}) {
    const std::vector<std::string> layers = model.layers(step);
    ASSERT_EQ(layers.size(), 13U);
    EXPECT_EQ(layers[0], "model.py:30 #0/block.py:11/linear.py:134");
    EXPECT_EQ(layers[2], "model.py:30 #0/block.py:12/linear.py:134") << "the second of two there";
    EXPECT_EQ(layers[3], "model.py:30 #0/block.py:13/linear.py:134");
    EXPECT_EQ(layers[4], "model.py:30 #1/block.py:11/linear.py:134");
    EXPECT_EQ(layers[11], "model.py:30 #2/block.py:13/linear.py:134");
    EXPECT_EQ(layers[12], "model.py:40/block.py:50/linear.py:134") << "the head is no loop";
  }
}

TEST(LayerCalls, APassThatDoesNotFitIsNotNumbered) {
  Model model;
  for (int step = 0; step < 4; ++step) model.step(3, step == 2);
  EXPECT_EQ(model.layers(2)[0], "model.py:30/block.py:11/linear.py:134");
  EXPECT_EQ(model.layers(3)[4], "model.py:30 #1/block.py:11/linear.py:134");
}

TEST(LayerCalls, OneBlockIsNoLoop) {
  Model model;
  model.step(1);
  EXPECT_EQ(model.layers(0)[0], "model.py:30/block.py:11/linear.py:134");
}

TEST(LayerCalls, ALineThatRunsForEveryTokenIsNoLoopOverLayers) {
  Model model;
  model.step(300);
  EXPECT_EQ(model.layers(0)[0], "model.py:30/block.py:11/linear.py:134");
}

TEST(LayerCalls, TwoSitesThatAllocateTwiceProveNothing) {
  Program program;
  std::vector<AllocationId> kept;
  for (int time = 0; time < 2; ++time)
    for (const int line : {11, 12}) kept.push_back(program.alloc(64, Model::below(30, line)));
  program.pass(Program::engine());
  EXPECT_EQ(program.classify().calls.of(index(kept.front())), LayerCalls::none);
}

}  // namespace
}  // namespace memreel
