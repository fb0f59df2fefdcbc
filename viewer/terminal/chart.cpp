// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace memreel::viewer::terminal {
namespace {

constexpr int levels = 8;  // of a character

/// The heights at which the layers of a column end, in levels; the last is that of the reserved area.
std::vector<int> heights_of(const ChartColumn& column, std::uint64_t top, int rows) {
  const auto level = [&](double value) {
    return std::clamp(static_cast<int>(std::lround(value / static_cast<double>(top) * rows * levels)), 0,
                      rows * levels);
  };
  std::vector<int> heights;
  double sum = 0;
  for (const std::uint64_t part : column.parts) heights.push_back(level(sum += static_cast<double>(part)));
  const int before = heights.empty() ? 0 : heights.back();
  heights.push_back(std::max(before, level(static_cast<double>(column.reserved))));
  return heights;
}

/// A layer's part of a character, from its lower edge.
struct Share {
  std::size_t layer = 0;
  int from = 0, to = 0;
  int size() const { return to - from; }
};

/// Every layer in a character, from the bottom; the empty space above all layers is one more.
std::vector<Share> shares_of(const std::vector<int>& heights, int bottom) {
  std::vector<Share> shares;
  int from = bottom;
  for (std::size_t layer = 0; layer <= heights.size(); ++layer) {
    const int end = layer < heights.size() ? std::clamp(heights[layer], bottom, bottom + levels) : bottom + levels;
    if (end > from) shares.push_back({layer, from - bottom, end - bottom});
    from = std::max(from, end);
  }
  return shares;
}

struct Palette {
  const Chart& chart;
  const Look& look;

  bool is_reserved(std::size_t layer) const { return layer == chart.layers.size(); }
  bool is_empty(std::size_t layer) const { return layer > chart.layers.size(); }
  Colour colour(std::size_t layer) const {
    return is_empty(layer) ? Colour() : is_reserved(layer) ? look.reserved() : chart.layers[layer].colour;
  }
  char32_t letter(std::size_t layer) const {
    if (is_empty(layer)) return U' ';
    return is_reserved(layer) ? U'.' : static_cast<char32_t>(chart.layers[layer].letter);
  }
};

/// Two layers at most fit in a character: the largest two.
Cell cell_of(std::vector<Share> shares, const Palette& palette) {
  while (shares.size() > 2) shares.erase(std::ranges::min_element(shares, {}, &Share::size));
  const Share& lower = shares.front();
  if (palette.look.uses_letters()) {
    const Share& most = *std::ranges::max_element(shares, {}, &Share::size);
    return {palette.letter(most.layer), {.ink = palette.colour(most.layer)}};
  }
  if (shares.size() == 1) {
    if (palette.is_empty(lower.layer)) return {};
    return {palette.is_reserved(lower.layer) ? U'\u2591' : U'\u2588', {.ink = palette.colour(lower.layer)}};
  }
  const Share& upper = shares.back();
  const int level = std::clamp(lower.size() * levels / (lower.size() + upper.size()), 1, levels - 1);
  return {static_cast<char32_t>(0x2580 + level),
          {.ink = palette.colour(lower.layer),
           .ground = palette.is_reserved(upper.layer) ? Colour() : palette.colour(upper.layer)}};
}

}  // namespace

void draw_chart(Screen& screen, const Area& area, const Chart& chart, const Look& look) {
  const Palette palette{chart, look};
  const int columns = std::min(area.width, static_cast<int>(chart.columns.size()));
  for (int x = 0; x < columns; ++x) {
    const ChartColumn& column = chart.columns[static_cast<std::size_t>(x)];
    const std::vector<int> heights = heights_of(column, std::max<std::uint64_t>(chart.top, 1), area.height);
    for (int row = 0; row < area.height; ++row) {
      const Cell cell = cell_of(shares_of(heights, row * levels), palette);
      screen.put(area.left + x, area.bottom() - 1 - row, cell.glyph, cell.style);
    }
  }
}

std::string spark_line(const std::vector<std::uint64_t>& values, std::uint64_t top, int width, const Look& look) {
  std::string line;
  if (values.empty() || width <= 0 || top == 0) return line;
  const auto count = static_cast<std::size_t>(width);
  for (std::size_t x = 0; x < count; ++x) {
    const std::size_t begin = x * values.size() / count;
    const std::size_t end = std::max(begin + 1, (x + 1) * values.size() / count);
    std::uint64_t most = 0;
    for (std::size_t i = begin; i < std::min(end, values.size()); ++i) most = std::max(most, values[i]);
    const double share = static_cast<double>(most) / static_cast<double>(top);
    const int level = std::clamp(static_cast<int>(std::lround(share * levels)), most == 0 ? 0 : 1, levels);
    if (!look.unicode)
      line += level == 0 ? ' ' : static_cast<char>('0' + level);
    else
      line += level == 0 ? " " : utf8_of(static_cast<char32_t>(0x2580 + level));
  }
  return line;
}

}  // namespace memreel::viewer::terminal
