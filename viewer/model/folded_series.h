// A flight recorder's sums over events that it did not keep (formats/model/folded.h), as panes show them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/filter.h"
#include "viewer/model/stack_weights.h"

namespace memreel::viewer {

/// The live bytes of a heap at the end of an interval of the sums.
struct FoldedPoint {
  Nanoseconds time{};
  Bytes live;
  friend bool operator==(const FoldedPoint&, const FoldedPoint&) = default;
};

/// From the beginning of the recording (0 bytes) until Losses::folded_until, where they match the trace's own
/// allocations. Empty if nothing was folded.
std::vector<FoldedPoint> folded_series(const Document& document, HeapId heap);

/// The live bytes at `time`, from the last interval that had ended by then; none before the first and after the last.
std::optional<Bytes> folded_live(const std::vector<FoldedPoint>& series, Nanoseconds time);

/// What each stack allocated in intervals that overlap the range `begin` .. `end`: bytes and counts, without single
/// allocations. `sieve` (null: all) limits stacks by its text; sums have no sizes or categories.
std::optional<std::vector<StackWeight>> weigh_folded(const Document& document, HeapId heap, Nanoseconds begin,
                                                     Nanoseconds end, const Sieve* sieve, const Progress& progress);

}  // namespace memreel::viewer
