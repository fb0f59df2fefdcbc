// SPDX-License-Identifier: Apache-2.0
// Programs of a few allocations, with the stacks that PyTorch would record.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/analysis/category/classify.h"
#include "formats/model/stack_text.h"
#include "tests/unit/sample_trace.h"

namespace memreel::testing {

/// Builds a trace of allocations and frees, each with its stack; `line` is a line of the program.
class Program {
 public:
  using Stack = std::vector<std::string>;  // innermost first

  static Stack user(int line) { return {"train@train.py:" + std::to_string(line), "<module>@train.py:99"}; }
  static Stack within(Stack inner, const Stack& outer) {
    inner.insert(inner.end(), outer.begin(), outer.end());
    return inner;
  }
  static Stack module(int line = 10) {
    return within(
        {"forward@torch/nn/modules/linear.py:" + std::to_string(line), "_call_impl@torch/nn/modules/module.py:1790"},
        user(20));
  }
  static Stack moved(int line) {
    return within(
        {"<lambda>@torch/nn/modules/module.py:1097", "_apply@torch/nn/modules/module.py:" + std::to_string(line),
         "_apply@torch/nn/modules/module.py:934", "cuda@torch/nn/modules/module.py:1097"},
        user(1));
  }
  static Stack parameter() { return moved(965); }
  static Stack buffer() { return moved(1035); }
  static Stack engine() { return {}; }
  static Stack optimizer(const std::string& function, int line) {
    return within({function + "@torch/optim/adam.py:" + std::to_string(line), "wrapper@torch/optim/optimizer.py:533"},
                  user(40));
  }
  static Stack state() { return optimizer("_init_group", 178); }
  /// Of an allocation older than the recording.
  static Stack older() { return {std::string(preexisting_frame) + "@:0"}; }
  static Stack zero_grad() { return within({"zero_grad@torch/optim/optimizer.py:1066"}, user(41)); }
  /// Checkpointing repeats a forward pass on autograd's thread: none of the program's frames are below it.
  static Stack recompute() {
    return {"forward@torch/nn/modules/linear.py:10", "_call_impl@torch/nn/modules/module.py:1790",
            "recompute_fn@torch/utils/checkpoint.py:1500", "unpack_hook@torch/utils/checkpoint.py:1100"};
  }

  AllocationId alloc(std::uint64_t kib, const Stack& stack, PoolId pool = PoolId::default_pool) {
    return build_.alloc(origin(pool), {0x1000 + 0x10000 * next_++}, {kib << 10U}, id_of(stack));
  }
  void free(AllocationId id, const Stack& stack) {
    Event event = build_.trace().events[build_.trace().events.begin_of(id)];
    event.kind = EventKind::free_requested;
    event.stack = id_of(stack);
    build_.push(event);
  }
  /// Allocated and freed at once: marks the current place in the program.
  void pass(const Stack& stack) { free(alloc(1, stack), stack); }

  Categories classify() { return memreel::classify(build_.trace()); }
  TraceBuilder& build() { return build_; }
  PoolId private_pool() {
    build_.trace().tables.pools.push_back({.key_high = 1});
    return PoolId{static_cast<std::uint32_t>(build_.trace().tables.pools.size() - 1)};
  }

 private:
  OriginId origin(PoolId pool) {
    const auto [entry, is_new] = origins_.try_emplace(pool);
    if (is_new) entry->second = build_.origin(HeapId{1}, 0, pool);
    return entry->second;
  }
  /// Stacks share common frames, as in any trace.
  StackId id_of(const Stack& stack) {
    if (stack.empty()) return StackId::none;
    const auto [entry, is_new] = stacks_.try_emplace(stack, StackId::none);
    if (is_new) {
      const StackId caller = id_of({stack.begin() + 1, stack.end()});
      entry->second = build_.stack({stack.front()});
      build_.trace().tables.stacks[index(entry->second)].caller = caller;
    }
    return entry->second;
  }

  TraceBuilder build_;
  std::map<PoolId, OriginId> origins_;
  std::map<Stack, StackId> stacks_;
  std::uint64_t next_ = 0;
};

inline void expect_category(const Categories& categories, const std::vector<AllocationId>& ids, Category category) {
  for (const AllocationId id : ids)
    EXPECT_EQ(name_of(categories.category(id)), name_of(category))
        << "allocation " << index(id) << ": " << row_of(categories.evidence[index(id)]).name;
}

}  // namespace memreel::testing
