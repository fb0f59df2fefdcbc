// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/prompt.h"

#include <algorithm>
#include <cstddef>

namespace memreel::viewer::terminal {

Typed type_into(std::string& text, const Key& key) {
  constexpr std::size_t longest = 1000;
  if (key.special == Special::enter) return Typed::done;
  if (key.special == Special::escape) return Typed::cancelled;
  if (key.special == Special::backspace) {
    std::u32string glyphs = glyphs_of(text);
    if (!glyphs.empty()) glyphs.pop_back();
    text.clear();
    for (const char32_t glyph : glyphs) text += utf8_of(glyph);
  } else if (key.special == Special::none && key.character >= U' ' && text.size() < longest) {
    text += utf8_of(key.character);
  }
  return Typed::more;
}

void draw_prompt(Screen& screen, int y, std::string_view text, const Look& look) {
  const int x = screen.text(0, y, "/" + std::string(text), {.bold = true});
  screen.put(x, y, U' ', {.reversed = true});
  screen.text_before(screen.width(), y, "Enter: search   Esc: cancel", {.ink = look.faint()});
}

std::string copied_words(std::string_view row) {
  std::string words = "copied: ";
  for (const char c : row) words += c == '\t' ? std::string("  ") : std::string(1, c);
  return words;
}

void draw_help(Screen& screen, std::string_view title, std::span<const HelpLine> lines, int& top, const Look& look) {
  constexpr int usual = 76, keys_width = 21, least_beside = 12;
  // Narrow strips of what is behind it would only disturb.
  const int width = screen.width() < usual + 2 * least_beside ? screen.width() : usual;
  const auto count = static_cast<int>(lines.size());
  const Area box{(screen.width() - width) / 2, 1, width, std::min(count + 2, screen.height() - 2)};
  screen.fill(box, U' ');
  screen.text(box.left + 1, box.top, title, {.bold = true});
  screen.text_before(box.right() - 1, box.top, "Esc: back", {.ink = look.faint()});
  const int room = box.height - 1;
  top = std::clamp(top, 0, std::max(0, count - room));
  for (int i = 0; i < room && top + i < count; ++i) {
    const HelpLine& line = lines[static_cast<std::size_t>(top) + static_cast<std::size_t>(i)];
    screen.text(box.left + 1, box.top + 1 + i, line.keys, {.ink = look.accent()});
    screen.text(box.left + 1 + keys_width, box.top + 1 + i, line.what, {}, box.width - keys_width - 2);
  }
  if (top + room < count) screen.text_before(box.right() - 1, box.bottom() - 1, "\u2193", {.ink = look.faint()});
}

}  // namespace memreel::viewer::terminal
