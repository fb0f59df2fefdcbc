// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/look.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "analyzer/report/live_groups.h"

namespace memreel::viewer::terminal {
namespace {

struct Parts {
  int red, green, blue;
};

Parts parts_of(Colour colour) {
  const auto rgb = static_cast<std::uint32_t>(colour.rgb);
  return {static_cast<int>((rgb >> 16U) & 0xFFU), static_cast<int>((rgb >> 8U) & 0xFFU), static_cast<int>(rgb & 0xFFU)};
}

/// Weighted as eyes do, "redmean".
int distance(const Parts& a, const Parts& b) {
  const int mean = (a.red + b.red) / 2, red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
  return (((512 + mean) * red * red) >> 8) + 4 * green * green + (((767 - mean) * blue * blue) >> 8);
}

constexpr std::array<int, 6> cube_steps{0, 95, 135, 175, 215, 255};

// xterm's.
constexpr std::array<Parts, 16> first_colours{{{0, 0, 0},
                                               {205, 0, 0},
                                               {0, 205, 0},
                                               {205, 205, 0},
                                               {0, 0, 238},
                                               {205, 0, 205},
                                               {0, 205, 205},
                                               {229, 229, 229},
                                               {127, 127, 127},
                                               {255, 0, 0},
                                               {0, 255, 0},
                                               {255, 255, 0},
                                               {92, 92, 255},
                                               {255, 0, 255},
                                               {0, 255, 255},
                                               {255, 255, 255}}};

Parts indexed_parts(int i) {
  if (i >= 232) return {8 + 10 * (i - 232), 8 + 10 * (i - 232), 8 + 10 * (i - 232)};
  const auto step = [](int n) { return cube_steps.at(static_cast<std::size_t>(n)); };
  return {step((i - 16) / 36), step((i - 16) / 6 % 6), step((i - 16) % 6)};
}

}  // namespace

Colour Look::category(Category category) const {
  const auto style = std::ranges::find(category_styles(), category, &CategoryStyle::category);
  return {static_cast<std::int32_t>(light ? style->on_light : style->on_dark)};
}

Colour Look::hue(std::size_t i) const {
  constexpr std::array<std::int32_t, 6> hues{0x56B4E9, 0xE69F00, 0x009E73, 0xCC79A7, 0x0072B2, 0xF0E442};
  return {hues.at(i % hues.size())};
}

char letter_of(Category category) {
  constexpr std::array<char, category_count> letters{'?', 'P', 'B', 'G', 'O', 'A', 'I', 'T', 'K', 'C', 'N', 'W', 'R'};
  return letters.at(static_cast<std::size_t>(category));
}

Depth depth_of(const Environment& environment) {
  const std::string_view term = environment.term;
  if (environment.no_color || environment.colours < 8) return Depth::none;
  if (environment.colorterm == "truecolor" || environment.colorterm == "24bit" || term.ends_with("-direct"))
    return Depth::direct;
  return environment.colours >= 256 ? Depth::indexed : Depth::sixteen;
}

int indexed(Colour colour) {
  const Parts wanted = parts_of(colour);
  int best = 16, least = std::numeric_limits<int>::max();
  for (int i = 16; i < 256; ++i) {
    const int away = distance(wanted, indexed_parts(i));
    if (away >= least) continue;
    least = away;
    best = i;
  }
  return best;
}

int basic(Colour colour, int colours) {
  const Parts wanted = parts_of(colour);
  int best = 0, least = std::numeric_limits<int>::max();
  for (int i = 0; i < std::min(colours, 16); ++i) {
    const int away = distance(wanted, first_colours.at(static_cast<std::size_t>(i)));
    if (away >= least) continue;
    least = away;
    best = i;
  }
  return best;
}

}  // namespace memreel::viewer::terminal
