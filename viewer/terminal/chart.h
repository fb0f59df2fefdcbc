// SPDX-License-Identifier: Apache-2.0
// Stacked areas in a grid of characters, eight levels to a row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viewer/terminal/look.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

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

}  // namespace memreel::viewer::terminal
