// SPDX-License-Identifier: Apache-2.0
// The time series of a heap's live bytes, split by holder; and a flight recorder's sums over events that it did not
// keep.
#pragma once

#include <array>
#include <memory>

#include "viewer/model/axis.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"
#include "viewer/model/flame.h"
#include "viewer/model/typed_input.h"

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

/// A tag is the innermost range between two marks of its thread in which an allocation was made; a step is an iteration
/// of the program's main loop (analyzer/replay/steps.h).
enum class SplitBy : std::uint8_t { nothing, category, phase, stack, pool, stream, thread, tag, step };
inline constexpr std::array<std::string_view, 9> split_words{"nothing", "category", "phase", "stack", "pool",
                                                             "stream",  "thread",   "tag",   "step"};

struct SplitQuery {
  HeapId heap = HeapId::none;
  SplitBy by = SplitBy::nothing;
  std::uint32_t version = 0;
  std::uint32_t classified = 0;        // number of classified allocations; 0 if irrelevant
  std::shared_ptr<const Sieve> sieve;  // counts what matches apart from its category; null: all
  friend bool operator==(const SplitQuery&, const SplitQuery&) = default;
};

/// Bytes of each group after every `stride` events. Groups are the largest ones, then the rest together; for
/// categories all of them, from the bottom of the stack (live_groups.h).
struct StackedSeries {
  static constexpr std::size_t most_groups = 6;  // besides the rest: one for each distinguishable colour
  struct Group {
    std::uint32_t key = 0;  // id of the site (document.h), pool, stream, thread or string of the tag; number of the
                            // step, from 0; Category, Phase
    std::string label;
    bool is_rest = false;
    std::vector<std::uint64_t> bytes;  // held at the stretch's peak of the heap's live bytes
  };
  std::uint32_t stride = 1;
  std::vector<Group> groups;
  std::vector<std::uint64_t> totals;  // of all groups, for each stretch
};

/// None when cancelled. Each stretch is shown as it was at the highest total within it, so that no peak is lost.
/// `classification`: may be null if neither category nor phase is requested.
std::optional<StackedSeries> split_series(const Document& document, const SplitQuery& query, const Progress& progress,
                                          const Classification* classification = nullptr);

/// For each column, its stretch with the most bytes, since the series shows its maximum; none before the first event.
std::vector<std::optional<std::size_t>> fullest_stretches(const StackedSeries& groups,
                                                          const std::vector<SeriesColumn>& columns);

}  // namespace memreel::viewer
