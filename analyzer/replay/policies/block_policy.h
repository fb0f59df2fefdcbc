// SPDX-License-Identifier: Apache-2.0
// The common part of all policies that keep every block, allocated or free, in one table.
#pragma once

#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/engine/replay_result.h"
#include "analyzer/replay/heap/block_table.h"

namespace memreel {

/// The state of such a policy and the queries of the replay (analyzer/replay/engine/policy_interface.h). A policy that
/// knows its free memory more exactly hides for_each_free() with its own.
class BlockPolicy {
 public:
  const HeapUse& use() const { return use_; }
  const DriverCalls& driver_calls() const { return calls_; }
  const Block& block_of(std::uint32_t slot) const { return table_[block_of_[slot]]; }
  /// Empty for a request of 0 bytes, which has no block.
  Extent extent_of(std::uint32_t slot) const {
    if (block_of_[slot] == BlockId::none) return {};
    return {block_of(slot).address, block_of(slot).size};
  }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state == BlockState::free) visit(FreeBlock{.size = block.size});
    });
  }
  const BlockTable& blocks() const { return table_; }
  const std::vector<BlockId>& block_ids() const { return block_of_; }

 protected:
  explicit BlockPolicy(const Prepared& heap) : block_of_(heap.slot_count + 1, BlockId::none) {}

  HeapUse use_;
  DriverCalls calls_;
  BlockTable table_;
  std::vector<BlockId> block_of_;  // by slot
};

}  // namespace memreel
