// SPDX-License-Identifier: Apache-2.0
// The timeline: live bytes by category below the reserved bytes, marks and failures, an axis, the cursor.
#pragma once

#include "viewer/model/axis.h"
#include "viewer/model/document.h"
#include "viewer/model/selection.h"
#include "viewer/model/stacked_series.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

// Stacked areas in a grid of characters, eight levels to a row.

/// One of the areas, from the bottom.
struct ChartLayer {
  Colour colour;
  char letter = '#';  // where neither colours nor blocks can be shown
};

struct ChartColumn {
  std::vector<std::uint64_t> parts;  // of each layer
  std::uint64_t reserved = 0;        // above them; drawn faintly
};

struct Chart {
  std::vector<ChartLayer> layers;
  std::vector<ChartColumn> columns;
  std::uint64_t top = 1;  // the value at the upper edge
};

/// One column of the chart for each of the area. Values above the top are cut off.
void draw_chart(Screen& screen, const Area& area, const Chart& chart, const Look& look);

/// A line of blocks of eight heights, or of digits in ASCII; the highest is `top`.
std::string spark_line(const std::vector<std::uint64_t>& values, std::uint64_t top, int width, const Look& look);

/// What the columns of characters show.
struct Timeline {
  std::vector<Nanoseconds> edges;  // one more than columns
  std::vector<SeriesColumn> columns;

  /// The column that shows the state after `events` events; none if it is out of view.
  std::optional<std::size_t> column_of(std::uint32_t events) const;
  /// The number of events after which a column is as it is shown, at its peak; none if nothing happens in it.
  std::optional<std::uint32_t> instant_of(const Document& document, const HeapSeries& series, std::size_t column) const;
};

/// The selection's view of its heap, in `width` columns; empty without events.
Timeline timeline_of(const Document& document, const Selection& selection, int width);

/// The neighbour of the cursor in view, `by` columns (of which something happens) to the right or left. Without one,
/// none: the view has to move.
std::optional<std::uint32_t> moved_cursor(const Document& document, const Selection& selection,
                                          const Timeline& timeline, int by);

/// The layers of the chart, from the bottom. `groups`: null: live bytes as a whole.
Chart chart_of(const Timeline& timeline, const StackedSeries* groups, SplitBy by, const Look& look);

/// Columns left of the plot, with the scale.
inline constexpr int timeline_gutter = 13;
/// Rows below the plot: marks, axis.
inline constexpr int timeline_rows_below = 2;

/// `groups`: as in chart_of().
void draw_timeline(Screen& screen, const Area& area, const Document& document, const Selection& selection,
                   const Timeline& timeline, const StackedSeries* groups, SplitBy by, const Look& look);

}  // namespace memreel::viewer::terminal
