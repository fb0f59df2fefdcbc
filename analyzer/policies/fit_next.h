// fit.next{align=512,page=2MiB}: the first free block that fits after the previous allocation, then from the beginning.
//
// A free block that starts before the end of the previous allocation counts as before it. Otherwise as in
// growing_range.h. Source: Knuth, "The Art of Computer Programming" vol. 1, 2.5, exercise 6 (the roving pointer).
#pragma once

#include "analyzer/engine/policy_entry.h"
#include "analyzer/heap/address_index.h"
#include "analyzer/policies/growing_range.h"

namespace memreel {

class NextFitPlacement {
 public:
  NextFitPlacement(BlockTable& table, Bytes) : table_(table) {}

  void insert(BlockId id) { index_.insert(table_[id].address, table_[id].size, id); }
  void erase(BlockId id) { index_.erase(table_[id].address, table_[id].size); }
  BlockId find(Bytes size) const {
    const BlockId behind = index_.find(rover_, size);
    return behind != BlockId::none ? behind : index_.find(Address{}, size);
  }
  void placed(const Block& block) { rover_ = block.address + block.size; }
  Bytes largest() const { return index_.largest(); }

 private:
  const BlockTable& table_;
  AddressIndex index_;
  Address rover_;
};

using FitNext = GrowingRange<NextFitPlacement>;

PolicyEntry fit_next_entry();

}  // namespace memreel
