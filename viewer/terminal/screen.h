// SPDX-License-Identifier: Apache-2.0
// What a terminal can show, and a picture of it: a grid of characters with attributes, drawn without a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/analysis/category/category.h"

namespace memreel::viewer::terminal {

/// 0xRRGGBB; negative: the terminal's own.
struct Colour {
  std::int32_t rgb = -1;

  bool is_own() const { return rgb < 0; }
  friend bool operator==(Colour, Colour) = default;
};

struct Style {
  Colour ink{}, ground{};
  bool bold = false, reversed = false, underlined = false;

  friend bool operator==(const Style&, const Style&) = default;
};

struct Cell {
  char32_t glyph = U' ';  // 0: the right half of a wide character
  Style style{};

  friend bool operator==(const Cell&, const Cell&) = default;
};

/// Columns and rows, from 0.
struct Area {
  int left = 0, top = 0, width = 0, height = 0;

  int right() const { return left + width; }
  int bottom() const { return top + height; }
  bool contains(int x, int y) const { return x >= left && x < right() && y >= top && y < bottom(); }
  friend bool operator==(const Area&, const Area&) = default;
};

/// Of a terminal: 0 for combining characters, 2 for East Asian wide characters and pictures.
int columns_of(char32_t glyph);
/// The characters of UTF-8; invalid bytes become U+FFFD, and what would move the cursor or change the reading order
/// becomes '?'.
std::u32string glyphs_of(std::string_view utf8);
std::string utf8_of(char32_t glyph);
/// The columns that a text takes.
int width_of(std::string_view utf8);
/// At most `width` columns of a text: what does not fit is replaced by "…" at its end.
std::string fitting(std::string_view utf8, int width);
/// The same, with "…" in the middle: for places in code, which differ at their ends.
std::string fitting_middle(std::string_view utf8, int width);
/// The likeliest ASCII character in place of another one.
char ascii_of(char32_t glyph);

class Screen {
 public:
  /// Blank. Dimensions are at least 1.
  Screen(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }
  Area area() const { return {0, 0, width_, height_}; }
  const Cell& at(int x, int y) const { return cells_[index(x, y)]; }

  /// What lies outside the screen is ignored.
  void put(int x, int y, char32_t glyph, const Style& style = {});
  /// Writes at most `room` columns of a text, and returns the column after it.
  int text(int x, int y, std::string_view utf8, const Style& style = {}, int room = std::numeric_limits<int>::max());
  /// Writes so that the text ends before column `right`.
  void text_before(int right, int y, std::string_view utf8, const Style& style = {});
  void fill(const Area& area, char32_t glyph, const Style& style = {});
  /// Changes attributes only: inverts a row, or gives it a ground.
  void reverse(const Area& area);
  void set_ground(const Area& area, Colour ground);
  /// Replaces every character that ASCII lacks.
  void make_ascii();

  /// Rows without attributes and trailing blanks, each ending in a line feed.
  std::string plain_text() const;
  friend bool operator==(const Screen&, const Screen&) = default;

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  }
  bool contains(int x, int y) const { return x >= 0 && y >= 0 && x < width_ && y < height_; }

  int width_, height_;
  std::vector<Cell> cells_;
};

// What a terminal can show, and the colours of what is shown.

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
