// SPDX-License-Identifier: Apache-2.0
// First, next and best fit in one range of addresses.
#pragma once

#include <bit>

#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/heap/address_index.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/policies/growing_range.h"

namespace memreel {

// fit.first{align=512,page=2MiB}: the free block at the lowest address that fits.
//
// Otherwise as in growing_range.h. Source: Knuth, "The Art of Computer Programming" vol. 1, 2.5, algorithm A with the
// free list in address order.

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

// fit.next{align=512,page=2MiB}: the first free block that fits after the previous allocation, then from the beginning.
//
// A free block that starts before the end of the previous allocation counts as before it. Otherwise as in
// growing_range.h. Source: Knuth, "The Art of Computer Programming" vol. 1, 2.5, exercise 6 (the roving pointer).

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

// fit.best{align=512,page=2MiB}: the smallest free block that fits; ties go to the lowest address.
//
// Otherwise as in growing_range.h. Source: Wilson, Johnstone, Neely and Boles, "Dynamic storage allocation: a survey
// and critical review" (IWMM 1995).

class BestFitPlacement {
 public:
  BestFitPlacement(BlockTable& table, Bytes align)
      : index_(table, static_cast<unsigned>(std::countr_zero(align.count))) {}

  void insert(BlockId id) { index_.insert(id); }
  void erase(BlockId id) { index_.erase(id); }
  BlockId find(Bytes size) const { return index_.find(size); }
  void placed(const Block&) {}
  Bytes largest() const { return index_.largest(); }

 private:
  BestFitIndex index_;
};

using FitBest = GrowingRange<BestFitPlacement>;

PolicyEntry fit_best_entry();

}  // namespace memreel
