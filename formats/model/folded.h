// What a flight recorder remembers of events that it does not keep: sums per stack over time.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel {

/// A reader takes more for damage.
inline constexpr std::uint32_t max_folded_intervals = 4096;

/// What one stack of one heap did in one interval.
struct FoldedRow {
  std::uint32_t interval = 0;  // counted from FoldedHistory::begin
  HeapId heap = HeapId::none;
  StackId stack = StackId::none;  // of the allocations, also for frees
  std::uint64_t allocations = 0, frees = 0;
  Bytes allocated, freed;  // requested bytes

  friend bool operator==(const FoldedRow&, const FoldedRow&) = default;
};

/// Everything that was allocated and freed from `begin` until `until`, whether or not the trace still has its events.
struct FoldedHistory {
  Nanoseconds begin{}, until{};
  Nanoseconds interval{};       // how long each lasts; 0: nothing was folded
  std::vector<FoldedRow> rows;  // by interval, heap and stack; each combination once

  bool empty() const { return rows.empty(); }
  friend bool operator==(const FoldedHistory&, const FoldedHistory&) = default;
};

}  // namespace memreel
