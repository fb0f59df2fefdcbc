// SPDX-License-Identifier: Apache-2.0
// The series of a heap's metrics, event by event and in columns of pixels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// Walks a trace in order. The document and the series must outlive it.
class SeriesWalk {
 public:
  /// Starts after `events` events, at most all. Cost: the events of one leaf.
  SeriesWalk(const Document& document, const HeapSeries& heap, std::uint32_t events);

  /// The number of events passed, and the metrics after them.
  std::uint32_t at() const { return at_; }
  const Metrics& metrics() const { return metrics_; }

  /// Advances until `end` events are passed, at least one more and at most all. Returns the extent of the metrics after
  /// each of those events. Visits at most the events of two leaves.
  Extent advance(std::uint32_t end);

 private:
  void begin_at_leaf(std::uint32_t leaf);
  void step();
  void apply_allocation(std::uint32_t id, bool begins);

  const Document& document_;
  const HeapSeries& heap_;
  std::uint32_t at_ = 0;
  std::uint32_t other_ = 0;  // the next row of Columns::other
  Metrics metrics_{};
};

/// The contents of one column of pixels.
struct SeriesColumn {
  Extent extent;            // of the metrics over the column
  std::uint32_t begin = 0;  // its events; if there are none, the extent is that of the current state
  std::uint32_t end = 0;
};

/// One column between each two of `edges`, which are ascending. Every event from the first to the last edge is in one
/// column.
std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap,
                                         std::span<const Nanoseconds> edges);

/// `width` columns from `begin` to `end`. Every event is in one column, so no minimum or maximum is ever left out.
/// A column of 16 leaves or more begins at a whole leaf, which is at most 1/16 of a column off.
std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap, Nanoseconds begin,
                                         Nanoseconds end, std::uint32_t width);

}  // namespace memreel::viewer
