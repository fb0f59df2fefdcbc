// SPDX-License-Identifier: Apache-2.0
// What a flight recorder keeps of discarded events: sums per stack over time.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel {

/// Readers treat more than this as damage.
inline constexpr std::uint32_t max_folded_intervals = 4096;

/// The activity of one stack in one heap during one interval.
struct FoldedRow {
  std::uint32_t interval = 0;  // counted from FoldedHistory::begin
  HeapId heap = HeapId::none;
  StackId stack = StackId::none;  // of the allocations, for frees too
  std::uint64_t allocations = 0, frees = 0;
  Bytes allocated, freed;  // requested bytes

  friend bool operator==(const FoldedRow&, const FoldedRow&) = default;
};

/// All allocations and frees from `begin` until `until`, whether or not the trace still has their events.
struct FoldedHistory {
  Nanoseconds begin{}, until{};
  Nanoseconds interval{};       // the length of each; 0: nothing was folded
  std::vector<FoldedRow> rows;  // by interval, heap and stack; each combination once

  bool empty() const { return rows.empty(); }
  friend bool operator==(const FoldedHistory&, const FoldedHistory&) = default;
};

}  // namespace memreel
