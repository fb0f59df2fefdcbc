// fit.best{align=512,page=2MiB}: the smallest free block that fits; ties go to the lowest address.
//
// Otherwise as in growing_range.h. Source: Wilson, Johnstone, Neely and Boles, "Dynamic storage allocation: a survey
// and critical review" (IWMM 1995).
#pragma once

#include <bit>

#include "analyzer/engine/policy_entry.h"
#include "analyzer/heap/best_fit_index.h"
#include "analyzer/policies/growing_range.h"

namespace memreel {

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
