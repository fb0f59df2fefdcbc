// Draws a time series: filled columns of pixels on an axis of bytes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "viewer/model/series_columns.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// The position of `bytes` on an axis from 0 to `top` over the height of `area`.
float y_of(const Area& area, std::uint64_t bytes, std::uint64_t top);

/// Fills columns from `rows(x).first` down to `rows(x).second`. Identical neighbours become one rectangle: a pixel is
/// filled when its middle is covered, so values that round to the same pixels look the same.
template <class XOf, class Rows>
void fill_columns(ImDrawList& list, std::size_t count, const XOf& x_of, Colour colour, const Rows& rows) {
  const auto rounded = [&](std::size_t x) {
    const std::pair<float, float> edges = rows(x);
    return std::pair{std::round(edges.first), std::round(edges.second)};
  };
  for (std::size_t x = 0; x < count;) {
    const auto here = rounded(x);
    std::size_t end = x + 1;
    while (end < count && rounded(end) == here) ++end;
    if (here.first < here.second) fill(list, {x_of(x), here.first, x_of(end), here.second}, colour);
    x = end;
  }
}

/// The left edge of a column on screen.
using ColumnPlace = std::function<float(std::size_t column)>;

/// Reserved, held and live bytes. `has_pending`: whether any free of the heap completes later than it was requested.
void draw_series(const Theme& theme, ImDrawList& list, const Area& area, std::uint64_t top,
                 const std::vector<SeriesColumn>& columns, bool has_pending, const ColumnPlace& x_of);

/// "2 GiB": ticks are round.
std::string tick_text(std::uint64_t bytes);

/// The highest value of the columns; the axis ends a little above.
std::uint64_t highest(const std::vector<SeriesColumn>& columns);

/// An axis label, legible on data of any colour.
void label(const Scene& scene, ImDrawList& list, ImVec2 at, const std::string& what);

}  // namespace memreel::viewer
