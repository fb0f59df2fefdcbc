// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/screen.h"

#include <algorithm>
#include <array>

#include "analyzer/describe/live_groups.h"

namespace memreel::viewer::terminal {
namespace {

struct GlyphRange {
  char32_t first, last;
};

constexpr std::array<GlyphRange, 7> combining{{{0x0300, 0x036F},
                                               {0x0483, 0x0489},
                                               {0x0591, 0x05BD},
                                               {0x1AB0, 0x1AFF},
                                               {0x200B, 0x200D},
                                               {0x20D0, 0x20FF},
                                               {0xFE00, 0xFE0F}}};
constexpr std::array<GlyphRange, 10> wide{{{0x1100, 0x115F},
                                           {0x2E80, 0x303E},
                                           {0x3041, 0xA4CF},
                                           {0xAC00, 0xD7A3},
                                           {0xF900, 0xFAFF},
                                           {0xFE30, 0xFE6F},
                                           {0xFF00, 0xFF60},
                                           {0xFFE0, 0xFFE6},
                                           {0x1F300, 0x1FAFF},
                                           {0x20000, 0x3FFFD}}};

template <std::size_t n>
bool is_in(const std::array<GlyphRange, n>& ranges, char32_t glyph) {
  return std::ranges::any_of(ranges, [&](const GlyphRange& r) { return glyph >= r.first && glyph <= r.last; });
}

/// Control characters, line separators, and what changes the direction of text.
bool acts_on_terminals(char32_t glyph) {
  return glyph < 0x20 || (glyph >= 0x7F && glyph < 0xA0) || glyph == 0x200E || glyph == 0x200F ||
         (glyph >= 0x2028 && glyph <= 0x202E) || (glyph >= 0x2066 && glyph <= 0x2069) || glyph == 0x061C;
}

/// The character that begins at `at`, which moves behind it.
char32_t next_glyph(std::string_view utf8, std::size_t& at) {
  constexpr char32_t invalid = 0xFFFD;
  const auto byte = static_cast<unsigned char>(utf8[at++]);
  if (byte < 0x80) return byte;
  const int more = byte >= 0xF0 && byte < 0xF8 ? 3 : byte >= 0xE0 ? 2 : byte >= 0xC2 ? 1 : 0;
  if (more == 0 || byte >= 0xF8) return invalid;
  auto glyph = static_cast<char32_t>(byte & (0x3FU >> static_cast<unsigned>(more)));
  for (int i = 0; i < more; ++i) {
    if (at >= utf8.size() || (static_cast<unsigned char>(utf8[at]) & 0xC0U) != 0x80U) return invalid;
    glyph = (glyph << 6U) | (static_cast<unsigned char>(utf8[at++]) & 0x3FU);
  }
  return glyph > 0x10FFFF ? invalid : glyph;
}

}  // namespace

int columns_of(char32_t glyph) {
  if (glyph < 0x300) return 1;
  return is_in(combining, glyph) ? 0 : is_in(wide, glyph) ? 2 : 1;
}

std::u32string glyphs_of(std::string_view utf8) {
  std::u32string glyphs;
  for (std::size_t at = 0; at < utf8.size();) {
    const char32_t glyph = next_glyph(utf8, at);
    glyphs += acts_on_terminals(glyph) ? U'?' : glyph;
  }
  return glyphs;
}

std::string utf8_of(char32_t glyph) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  const auto tail = [&](unsigned shift) { return byte(0x80U | ((glyph >> shift) & 0x3FU)); };
  if (glyph < 0x80) return {byte(glyph)};
  if (glyph < 0x800) return {byte(0xC0U | (glyph >> 6U)), tail(0)};
  if (glyph < 0x10000) return {byte(0xE0U | (glyph >> 12U)), tail(6), tail(0)};
  return {byte(0xF0U | (glyph >> 18U)), tail(12), tail(6), tail(0)};
}

int width_of(std::string_view utf8) {
  int width = 0;
  for (const char32_t glyph : glyphs_of(utf8)) width += columns_of(glyph);
  return width;
}

std::string fitting(std::string_view utf8, int width) {
  if (width <= 0) return {};
  if (width_of(utf8) <= width) return std::string(utf8);
  std::string text;
  int taken = 0;
  for (const char32_t glyph : glyphs_of(utf8)) {
    taken += columns_of(glyph);
    if (taken >= width) break;
    text += utf8_of(glyph);
  }
  return text + "\u2026";
}

std::string fitting_middle(std::string_view utf8, int width) {
  if (width < 3) return fitting(utf8, width);
  if (width_of(utf8) <= width) return std::string(utf8);
  const std::u32string glyphs = glyphs_of(utf8);
  const int before = (width - 1) / 3, after = width - 1 - before;
  std::string text, end;
  int taken = 0;
  for (const char32_t glyph : glyphs) {
    if ((taken += columns_of(glyph)) > before) break;
    text += utf8_of(glyph);
  }
  taken = 0;
  for (auto at = glyphs.rbegin(); at != glyphs.rend() && (taken += columns_of(*at)) <= after; ++at)
    end.insert(0, utf8_of(*at));
  return text + "\u2026" + end;
}

char ascii_of(char32_t glyph) {
  constexpr std::array<std::pair<char32_t, char>, 27> likeliest{
      {{U'\u2190', '<'}, {U'\u2192', '>'}, {U'\u2191', '^'}, {U'\u2193', 'v'}, {U'\u2026', '~'}, {U'\u00B7', '-'},
       {U'\u2502', '|'}, {U'\u2506', ':'}, {U'\u2500', '-'}, {U'\u252C', '+'}, {U'\u2534', '+'}, {U'\u25B8', '+'},
       {U'\u25BE', '-'}, {U'\u2022', '*'}, {U'\u25A0', '#'}, {U'\u2588', '#'}, {U'\u2591', '.'}, {U'\u2592', ':'},
       {U'\u2593', '%'}, {U'\u2581', '_'}, {U'\u2582', '_'}, {U'\u2583', '='}, {U'\u2584', '='}, {U'\u2585', '%'},
       {U'\u2586', '%'}, {U'\u2587', '#'}, {U'\u258C', '='}}};
  if (glyph < 0x80) return static_cast<char>(glyph);
  const auto* const found = std::ranges::find(likeliest, glyph, [](const auto& pair) { return pair.first; });
  return found == likeliest.end() ? '?' : found->second;
}

Screen::Screen(int width, int height)
    : width_(std::max(width, 1)),
      height_(std::max(height, 1)),
      cells_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_)) {}

void Screen::put(int x, int y, char32_t glyph, const Style& style) {
  if (!contains(x, y)) return;
  Cell& cell = cells_[index(x, y)];
  // Half of a wide character can't stay.
  if (cell.glyph == 0 && x > 0) cells_[index(x - 1, y)].glyph = U' ';
  if (columns_of(cell.glyph) == 2 && contains(x + 1, y)) cells_[index(x + 1, y)].glyph = U' ';
  cell = {glyph, style};
  if (columns_of(glyph) != 2) return;
  if (contains(x + 1, y))
    cells_[index(x + 1, y)] = {0, style};
  else
    cell.glyph = U' ';
}

int Screen::text(int x, int y, std::string_view utf8, const Style& style, int room) {
  int left = room;
  for (const char32_t glyph : glyphs_of(utf8)) {
    const int columns = columns_of(glyph);
    if (columns == 0) continue;
    if (columns > left || x >= width_) break;
    put(x, y, glyph, style);
    x += columns;
    left -= columns;
  }
  return x;
}

void Screen::text_before(int right, int y, std::string_view utf8, const Style& style) {
  text(right - width_of(utf8), y, utf8, style);
}

void Screen::fill(const Area& area, char32_t glyph, const Style& style) {
  for (int y = area.top; y < area.bottom(); ++y)
    for (int x = area.left; x < area.right(); ++x) put(x, y, glyph, style);
}

void Screen::reverse(const Area& area) {
  for (int y = std::max(area.top, 0); y < std::min(area.bottom(), height_); ++y)
    for (int x = std::max(area.left, 0); x < std::min(area.right(), width_); ++x)
      cells_[index(x, y)].style.reversed = true;
}

void Screen::set_ground(const Area& area, Colour ground) {
  for (int y = std::max(area.top, 0); y < std::min(area.bottom(), height_); ++y)
    for (int x = std::max(area.left, 0); x < std::min(area.right(), width_); ++x)
      cells_[index(x, y)].style.ground = ground;
}

void Screen::make_ascii() {
  for (Cell& cell : cells_) {
    if (cell.glyph == 0)
      cell.glyph = U'?';
    else
      cell.glyph = static_cast<char32_t>(ascii_of(cell.glyph));
  }
}

std::string Screen::plain_text() const {
  std::string text;
  for (int y = 0; y < height_; ++y) {
    std::string row;
    for (int x = 0; x < width_; ++x)
      if (at(x, y).glyph != 0) row += utf8_of(at(x, y).glyph);
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  }
  return text;
}

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
