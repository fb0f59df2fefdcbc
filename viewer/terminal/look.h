// SPDX-License-Identifier: Apache-2.0
// What a terminal can show, and the colours of what is shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "analyzer/category/category.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

enum class Depth : std::uint8_t { none, sixteen, indexed, direct };  // no colours, 16 (or 8), 256, 24 bits

struct Look {
  bool unicode = true;
  Depth depth = Depth::direct;
  bool light = false;  // the terminal's ground

  /// Whether areas are told apart by letters, as neither colours nor blocks can be shown.
  bool uses_letters() const { return depth == Depth::none || !unicode; }

  Colour accent() const { return {light ? 0x0072B2 : 0x56B4E9}; }
  Colour alarm() const { return {light ? 0xC04000 : 0xFF6A2A}; }
  Colour faint() const { return {light ? 0x70757F : 0x878E9B}; }
  Colour selected() const { return {light ? 0xDCE6EE : 0x2C3A4A}; }
  Colour reserved() const { return {light ? 0xB4B8C0 : 0x4A5160}; }
  static Colour live() { return {0x3D8FC4}; }
  Colour category(Category category) const;
  /// Of the six hues that everybody can tell apart.
  Colour hue(std::size_t i) const;
};

/// One letter for each category, for terminals without colours: 'P' for parameters.
char letter_of(Category category);

/// The environment's: COLORTERM, TERM, NO_COLOR. `colours`: of the terminal's description.
struct Environment {
  std::string colorterm, term;
  bool no_color = false;  // NO_COLOR is set and not empty
  int colours = 8;        // negative or 0: none
};
Depth depth_of(const Environment& environment);

/// The nearest colour of the 256 that terminals share: the cube and the greys, 16 to 255.
int indexed(Colour colour);
/// The nearest of the first 16 (8 if `colours` is less than 16).
int basic(Colour colour, int colours);

}  // namespace memreel::viewer::terminal
