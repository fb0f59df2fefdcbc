// The sums that a flight recorder keeps of everything it has seen, in bounded memory however long it sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/model/flat_map.h"
#include "formats/model/folded.h"

namespace memreel {

/// Per heap, stack and interval. Intervals begin at a second and become longer when there are more than most_intervals
/// of them, or more rows than there is room for: 10 s, 1 min, 10 min, 1 h (from the fifth to the thirtieth day), 6 h,
/// 1 day, and then four times as long each. When one interval alone has too many stacks, those that did least are
/// summed up without a stack.
class FoldedTotals {
 public:
  static constexpr std::uint32_t most_intervals = 720;

  /// `most_rows`: 16 or more; memory is about 120 bytes for each.
  explicit FoldedTotals(std::size_t most_rows) : most_rows_(most_rows) {}

  // Times may go back a little: what is of an interval before the latest counts towards the latest.
  void allocated(Nanoseconds time, HeapId heap, StackId stack, Bytes size);
  void freed(Nanoseconds time, HeapId heap, StackId stack, Bytes size);

  /// All of it so far, in the order of FoldedHistory, at most as many rows as there is room for.
  FoldedHistory history(Nanoseconds until);

 private:
  struct Site {
    HeapId heap = HeapId::none;
    StackId stack = StackId::none;
    friend bool operator==(const Site&, const Site&) = default;
  };
  struct SiteHash {
    std::uint64_t operator()(const Site& site) const {
      return mix_bits((std::uint64_t{index(site.heap)} << 32U) | index(site.stack));
    }
  };

  FoldedRow& row(Nanoseconds time, Site site);
  void close_interval();
  /// Until intervals and rows are few enough.
  void shrink();
  void widen();
  void forget_smallest_stacks();

  std::size_t most_rows_;
  bool began_ = false;
  Nanoseconds begin_{}, width_{std::chrono::seconds(1)};
  std::vector<FoldedRow> closed_;    // of earlier intervals, sorted
  std::vector<FoldedRow> open_;      // of the latest
  FlatMap<Site, SiteHash> in_open_;  // where its sites are
  std::uint32_t latest_ = 0;
};

}  // namespace memreel
