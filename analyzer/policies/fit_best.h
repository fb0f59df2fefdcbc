// fit.best{align=512,page=2MiB}: the smallest free block that fits, of several the one at the lowest address.
//
// Everything else as in growing_range.h. Source: Wilson, Johnstone, Neely and Boles, "Dynamic storage allocation: a
// survey and critical review" (IWMM 1995).
#pragma once

#include <bit>

#include "analyzer/heap/best_fit_index.h"
#include "analyzer/policies/growing_range.h"
#include "analyzer/policies/registry.h"

namespace memreel {

class BestFitPlacement {
 public:
  explicit BestFitPlacement(Bytes align) : index_(static_cast<unsigned>(std::countr_zero(align.count))) {}

  void insert(const Block& block, BlockId id) { index_.insert(block.address, block.size, id); }
  void erase(const Block& block) { index_.erase(block.address, block.size); }
  BlockId find(Bytes size) const {
    const auto found = index_.find(size);
    return found ? found.block() : BlockId::none;
  }
  void placed(const Block&) {}
  Bytes largest() const { return index_.largest(); }

 private:
  BestFitIndex index_;
};

using FitBest = GrowingRange<BestFitPlacement>;

PolicyEntry fit_best_entry();

}  // namespace memreel
