// The series of a heap as wide as the screen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// What is shown in one column of pixels.
struct SeriesColumn {
  Extent extent;            // of the metrics at any time in the column
  std::uint32_t begin = 0;  // events in it; when there are none the extent is that of the state that lasts
  std::uint32_t end = 0;
};

/// A column between each two of `edges`, which ascend. Every event from the first to the last edge is in one column.
std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap,
                                         std::span<const Nanoseconds> edges);

/// `width` columns from `begin` to `end`. Every event is in one column, so no minimum or maximum is ever left out.
/// Where a column has 16 leaves and more it begins at a whole leaf, which is at most 1/16 of a column off.
std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap, Nanoseconds begin,
                                         Nanoseconds end, std::uint32_t width);

}  // namespace memreel::viewer
