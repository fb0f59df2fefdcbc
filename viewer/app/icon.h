// SPDX-License-Identifier: Apache-2.0
// The icon of the window: that of viewer/desktop/memreel-view.svg, for desktops that don't look it up by name.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace memreel::viewer {

inline constexpr int icon_size = 64;  // pixels, in both directions

/// RGBA bytes, row by row from the top.
inline std::vector<unsigned char> icon_pixels() {
  struct Box {
    int left, top, right, bottom;
    std::uint32_t colour;  // 0xRRGGBB
  };
  constexpr std::uint32_t ground = 0x16191F;
  // A later one covers earlier ones: the hole is an edge.
  constexpr std::array<Box, 8> boxes{{{10, 12, 30, 22, 0x56B4E9},
                                      {32, 12, 54, 22, 0x0072B2},
                                      {10, 27, 22, 37, 0xE69F00},
                                      {24, 27, 44, 37, 0xD55E00},
                                      {26, 29, 42, 35, ground},
                                      {46, 27, 54, 37, 0x009E73},
                                      {10, 42, 38, 52, 0x0072B2},
                                      {40, 42, 54, 52, 0x56B4E9}}};
  constexpr int radius = 12;
  std::vector<unsigned char> pixels;
  for (int y = 0; y < icon_size; ++y)
    for (int x = 0; x < icon_size; ++x) {
      const auto beyond = [](int at) {
        const int nearest = at < radius ? radius : at >= icon_size - radius ? icon_size - radius - 1 : at;
        return at - nearest;
      };
      const bool outside = beyond(x) * beyond(x) + beyond(y) * beyond(y) > radius * radius;
      std::uint32_t colour = ground;
      for (const Box& box : boxes)
        if (x >= box.left && x < box.right && y >= box.top && y < box.bottom) colour = box.colour;
      for (const unsigned shift : {16U, 8U, 0U}) pixels.push_back(static_cast<unsigned char>(colour >> shift & 0xFFU));
      pixels.push_back(outside ? 0 : 0xFF);
    }
  return pixels;
}

}  // namespace memreel::viewer
