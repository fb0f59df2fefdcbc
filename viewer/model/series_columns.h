// The time series of a heap in pixel columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

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
