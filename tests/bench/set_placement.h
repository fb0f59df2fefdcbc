// SPDX-License-Identifier: Apache-2.0
// The baseline for replays: best fit on a balanced tree.
#pragma once

#include <set>
#include <tuple>

#include "analyzer/replay/heap/block_table.h"
#include "formats/model/units.h"

namespace memreel {

/// Best fit as allocators implement it: PyTorch's BlockPool, TensorFlow's bins.
class SetPlacement {
 public:
  SetPlacement(BlockTable& table, Bytes) : table_(table) {}
  void insert(BlockId id) { blocks_.emplace(table_[id].size, table_[id].address, id); }
  void erase(BlockId id) { blocks_.erase({table_[id].size, table_[id].address, id}); }
  BlockId find(Bytes size) const {
    const auto found = blocks_.lower_bound({size, Address{}, BlockId{0}});
    return found == blocks_.end() ? BlockId::none : std::get<BlockId>(*found);
  }
  void placed(const Block&) {}
  Bytes largest() const { return blocks_.empty() ? Bytes{} : std::get<Bytes>(*blocks_.rbegin()); }

 private:
  const BlockTable& table_;
  std::set<std::tuple<Bytes, Address, BlockId>> blocks_;
};

}  // namespace memreel
