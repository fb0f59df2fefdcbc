// fit.first{align=512,page=2MiB}: the free block at the lowest address that fits.
//
// Otherwise as in growing_range.h. Source: Knuth, "The Art of Computer Programming" vol. 1, 2.5, algorithm A with the
// free list in address order.
#pragma once

#include "analyzer/engine/policy_entry.h"
#include "analyzer/heap/address_index.h"
#include "analyzer/policies/growing_range.h"

namespace memreel {

class FirstFitPlacement {
 public:
  FirstFitPlacement(BlockTable& table, Bytes) : table_(table) {}

  void insert(BlockId id) { index_.insert(table_[id].address, table_[id].size, id); }
  void erase(BlockId id) { index_.erase(table_[id].address, table_[id].size); }
  BlockId find(Bytes size) const { return index_.find(Address{}, size); }
  void placed(const Block&) {}
  Bytes largest() const { return index_.largest(); }

 private:
  const BlockTable& table_;
  AddressIndex index_;
};

using FitFirst = GrowingRange<FirstFitPlacement>;

PolicyEntry fit_first_entry();

}  // namespace memreel
