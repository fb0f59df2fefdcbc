// What a flight recorder remembers of events that it did not keep (formats/model/folded.h), as panes show it.
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

/// The live bytes of a heap when an interval of the sums had ended.
struct FoldedPoint {
  Nanoseconds time{};
  Bytes live;
  friend bool operator==(const FoldedPoint&, const FoldedPoint&) = default;
};

/// From the beginning of the recording (0 bytes) until Losses::folded_until, where they are what the trace's own
/// allocations say. Empty where nothing was folded.
std::vector<FoldedPoint> folded_series(const Document& document, HeapId heap);

/// The live bytes at `time`, as the last interval that had ended by then says; none before the first, after the last.
std::optional<Bytes> folded_live(const std::vector<FoldedPoint>& course, Nanoseconds time);

/// What each stack allocated in intervals that overlap the range `begin` .. `end`: bytes and how often, nothing of
/// single allocations. `sieve` (null: all) limits stacks by its text; sizes and categories of sums are not known.
std::optional<std::vector<StackWeight>> weigh_folded(const Document& document, HeapId heap, Nanoseconds begin,
                                                     Nanoseconds end, const Sieve* sieve, const Progress& progress);

}  // namespace memreel::viewer
