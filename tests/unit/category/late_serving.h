// SPDX-License-Identifier: Apache-2.0
// A program that only calls its model, recorded after the model was built.
#pragma once

#include "tests/unit/category/torch_program.h"

namespace memreel::testing {

/// A program that only calls its model.
struct LateServing {
  Program program;
  std::vector<AllocationId> weights;

  explicit LateServing(int copies = 1) {
    for (int copy = 0; copy < copies; ++copy) {
      weights.push_back(program.alloc(30000, Program::older()));
      for (int layer = 0; layer < 12; ++layer)
        for (const std::uint64_t kib : {9216U, 2304U}) weights.push_back(program.alloc(kib, Program::older()));
    }
  }

  /// With gradients, a pass leaves two of the three allocations of a layer.
  std::vector<AllocationId> forward(bool keeps_graph, std::uint64_t kib = 700) {
    std::vector<AllocationId> graph;
    for (int layer = 0; layer < 12; ++layer) {
      const AllocationId scratch = program.alloc(kib, Program::module(11));
      for (const int line : {12, 13}) {
        const AllocationId made = program.alloc(kib + 1, Program::module(line));
        if (keeps_graph)
          graph.push_back(made);
        else
          program.free(made, Program::module(14));
      }
      program.free(scratch, Program::module(14));
    }
    return graph;
  }
  void drop(const std::vector<AllocationId>& graph) {
    for (const AllocationId id : graph) program.free(id, Program::user(30));
  }
};

}  // namespace memreel::testing
