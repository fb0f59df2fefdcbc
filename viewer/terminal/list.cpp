// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/list.h"

#include <algorithm>
#include <cctype>

namespace memreel::viewer::terminal {
namespace {

bool contains(const ListRow& row, std::string_view text) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::ranges::any_of(row.cells, [&](const std::string& cell) {
    return std::search(cell.begin(), cell.end(), text.begin(), text.end(), same) != cell.end();
  });
}

std::vector<std::size_t> sortable(const List& list) {
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < list.columns.size(); ++i)
    if (list.columns[i].is_number && !list.rows.empty() && i < list.rows.front().numbers.size()) columns.push_back(i);
  return columns;
}

void draw_cell(Screen& screen, int left, int y, const ListColumn& column, int width, const std::string& cell,
               const Style& style) {
  const std::string shown = fitting(cell, width);
  if (column.is_number)
    screen.text_before(left + width, y, shown, style);
  else
    screen.text(left, y, shown, style, width);
}

/// The columns' left edges and widths.
std::vector<Area> layout(const Area& area, const std::vector<ListColumn>& columns) {
  std::vector<Area> places;
  int left = area.left;
  for (const ListColumn& column : columns) {
    const int width = column.width == 0 ? area.right() - left : std::min(column.width, area.right() - left);
    places.push_back({left, area.top, std::max(width, 0), 1});
    left += width + 2;
  }
  return places;
}

void draw_row(Screen& screen, const std::vector<Area>& places, int y, const List& list, const ListRow& row,
              const Look& look) {
  Style style{.ink = row.is_alarm ? look.alarm() : row.is_faint ? look.faint() : Colour()};
  for (std::size_t c = 0; c < list.columns.size() && c < row.cells.size(); ++c) {
    const Area& place = places[c];
    const bool is_last = c + 1 == list.columns.size();
    if (!is_last) {
      draw_cell(screen, place.left, y, list.columns[c], place.width, row.cells[c], style);
      continue;
    }
    int x = place.left + row.indent;
    if (row.swatch) {
      const char32_t sign = look.uses_letters() ? static_cast<char32_t>(row.letter) : U'\u25A0';
      screen.put(x, y, sign, {.ink = *row.swatch});
      x += 2;
    }
    const int room = place.left + place.width - x;
    const std::string shown =
        list.columns[c].is_place ? fitting_middle(row.cells[c], room) : fitting(row.cells[c], room);
    x = screen.text(x, y, shown, style, room);
    for (const Cell& cell : row.picture) screen.put(x++, y, cell.glyph, cell.style);
  }
}

}  // namespace

void move_selection(ListState& state, const List& list, std::int64_t by) {
  const auto last = static_cast<std::int64_t>(list.rows.size()) - 1;
  const std::int64_t to =
      std::clamp(static_cast<std::int64_t>(state.selected) + by, std::int64_t{0}, std::max(last, std::int64_t{0}));
  state.selected = static_cast<std::size_t>(to);
}

void sort_rows(List& list, const ListState& state) {
  if (!state.sorted_by) return;
  const std::size_t by = *state.sorted_by;
  const auto key = [by](const ListRow& row) { return by < row.numbers.size() ? row.numbers[by] : 0.0; };
  std::ranges::stable_sort(list.rows, std::ranges::greater{}, key);
}

void next_order(ListState& state, const List& list, int by) {
  const std::vector<std::size_t> columns = sortable(list);
  if (columns.empty()) return;
  const auto count = static_cast<std::int64_t>(columns.size());
  std::int64_t at = -1;
  if (state.sorted_by) {
    const auto found = std::ranges::find(columns, *state.sorted_by);
    if (found != columns.end()) at = found - columns.begin();
  }
  at = (at + 1 + by + count + 1) % (count + 1) - 1;
  state.sorted_by = at < 0 ? std::nullopt : std::optional(columns[static_cast<std::size_t>(at)]);
  state.selected = 0;
}

bool find_row(ListState& state, const List& list, std::string_view text, int by) {
  const auto count = static_cast<std::int64_t>(list.rows.size());
  for (std::int64_t i = 1; i <= count; ++i) {
    const std::int64_t at = ((static_cast<std::int64_t>(state.selected) + i * by) % count + count) % count;
    if (!contains(list.rows[static_cast<std::size_t>(at)], text)) continue;
    state.selected = static_cast<std::size_t>(at);
    return true;
  }
  return false;
}

const ListRow* selected_row(const ListState& state, const List& list) {
  return list.rows.empty() ? nullptr : &list.rows[std::min(state.selected, list.rows.size() - 1)];
}

std::string row_text(const ListRow& row) {
  std::string text;
  for (const std::string& cell : row.cells) text += (text.empty() ? "" : "\t") + cell;
  return text;
}

namespace {

constexpr int least_rows = 4;  // of caption, headers and rows, however long the answer is

/// In lines of at most `width`, broken between words.
std::vector<std::string> wrapped(const std::string& sentence, int width) {
  std::vector<std::string> lines{""};
  for (std::size_t at = 0; at < sentence.size();) {
    const std::size_t end = std::min(sentence.find(' ', at), sentence.size());
    const std::string word = sentence.substr(at, end - at);
    std::string& line = lines.back();
    if (!line.empty() && width_of(line) + 1 + width_of(word) > width)
      lines.push_back(word);
    else
      line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

}  // namespace

DrawnList draw_list(Screen& screen, const Area& area, const List& list, ListState& state, const Look& look) {
  int y = area.top;
  for (const std::string& sentence : list.answer)
    for (const std::string& line : wrapped(sentence, area.width))
      if (y < area.bottom() - least_rows) screen.text(area.left, y++, line, {}, area.width);
  if (!list.caption.empty() && y < area.bottom())
    screen.text(area.left, y++, fitting(list.caption, area.width), {.ink = list.is_alarm ? look.alarm() : look.faint()},
                area.width);
  if (list.rows.empty()) {
    if (y < area.bottom())
      screen.text(area.left, y, fitting(list.empty, area.width), {.ink = look.faint()}, area.width);
    return {{area.left, y, area.width, 0}, 0};
  }
  const std::vector<Area> places = layout(area, list.columns);
  if (y < area.bottom()) {
    for (std::size_t c = 0; c < list.columns.size(); ++c) {
      const bool is_order = state.sorted_by == c;
      draw_cell(screen, places[c].left, y, list.columns[c], places[c].width, list.columns[c].title,
                {.ink = is_order ? look.accent() : look.faint(), .underlined = is_order});
    }
    ++y;
  }
  const Area rows{area.left, y, area.width, std::max(area.bottom() - y, 0)};
  const auto room = static_cast<std::size_t>(rows.height);
  if (room == 0) return {rows, 0};
  state.selected = std::min(state.selected, list.rows.size() - 1);
  if (state.selected < state.top) state.top = state.selected;
  if (state.selected >= state.top + room) state.top = state.selected - room + 1;
  state.top = std::min(state.top, list.rows.size() > room ? list.rows.size() - room : 0);
  for (std::size_t i = 0; i < room && state.top + i < list.rows.size(); ++i) {
    const int at = rows.top + static_cast<int>(i);
    draw_row(screen, places, at, list, list.rows[state.top + i], look);
    if (state.top + i == state.selected) screen.reverse({area.left, at, area.width, 1});
  }
  return {rows, state.top};
}

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
