// A flight recorder's sums over everything it has seen, in bounded memory however long it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/model/flat_map.h"
#include "formats/model/folded.h"

namespace memreel {

/// Per heap, stack and interval. Intervals start at a second and lengthen whenever there are more than most_intervals
/// of them, or more rows than there is room for: 10 s, 1 min, 10 min, 1 h (from the fifth to the thirtieth day), 6 h, 1
/// day, and then four times as long each. If a single interval has too many stacks, the least active are summed up
/// without a stack.
/// summed up without a stack.
class FoldedTotals {
 public:
  static constexpr std::uint32_t most_intervals = 720;

  /// `most_rows`: 16 or more; each takes about 120 bytes.
  explicit FoldedTotals(std::size_t most_rows) : most_rows_(most_rows) {}

  // Times may go back slightly: what belongs to an earlier interval counts towards the latest.
  void allocated(Nanoseconds time, HeapId heap, StackId stack, Bytes size);
  void freed(Nanoseconds time, HeapId heap, StackId stack, Bytes size);

  /// The sums so far, in the order of FoldedHistory, with at most `most_rows` rows.
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
  /// Merges until there are few enough intervals and rows.
  void shrink();
  void widen();
  void forget_smallest_stacks();

  std::size_t most_rows_;
  bool began_ = false;
  Nanoseconds begin_{}, width_{std::chrono::seconds(1)};
  std::vector<FoldedRow> closed_;    // of earlier intervals, sorted
  std::vector<FoldedRow> open_;      // of the latest interval
  FlatMap<Site, SiteHash> in_open_;  // the index of each site in it
  std::uint32_t latest_ = 0;
};

}  // namespace memreel
