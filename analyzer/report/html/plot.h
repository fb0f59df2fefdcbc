// The common part of charts over time: an SVG that stretches to the width of the page, its axes, and the values shown
// at the pointer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// A value for each column.
struct PlotSeries {
  std::string_view name;
  std::vector<Bytes> values;
};

struct Plot {
  std::string legend;  // HTML
  std::string label;   // for screen readers
  std::string shapes;  // SVG, in a box as wide as there are columns, 1000 high
  Bytes highest;       // at the top
  std::size_t columns = 0;
  double seconds = 0;  // 0: columns are of events
  std::vector<PlotSeries> series;
};

/// Formatted for SVG, with five digits.
std::string svg_number(double value);

std::string plot_html(const Plot& plot);

/// The path of the area under a line that steps from column to column.
std::string steps_path(std::span<const Bytes> values, Bytes highest);

}  // namespace memreel
