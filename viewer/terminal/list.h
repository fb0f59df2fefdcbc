// SPDX-License-Identifier: Apache-2.0
// Tables: their contents, what of them is selected and in view, and how they are drawn.
#pragma once

#include <cstddef>
#include <span>

#include "formats/model/tables.h"
#include "viewer/terminal/screen.h"
#include "viewer/terminal/tty.h"

namespace memreel::viewer::terminal {

struct ListColumn {
  std::string title;
  int width = 0;          // 0: the rest of the line, for the last column
  bool is_number = true;  // right-aligned, and sortable by the row's numbers
  bool is_place = false;  // in code: what does not fit is left out in the middle
};

struct ListRow {
  std::vector<std::string> cells;
  std::vector<double> numbers;   // by column, to sort by; shorter: not sortable
  std::optional<Colour> swatch;  // before the last cell
  char letter = '#';             // instead of the swatch, without colours
  bool is_alarm = false, is_faint = false;
  int indent = 0;                           // of the last cell
  std::vector<Cell> picture;                // after the last cell's text
  StackId stack = StackId::none;            // of the row
  std::optional<std::uint32_t> instant;     // that Enter leads to
  std::optional<std::uint32_t> allocation;  // that Enter selects
  std::size_t item = 0;                     // which of the things listed, in the list's own order
  std::string copied;                       // by `y`; empty: the cells
};

struct List {
  std::vector<std::string> answer;  // sentences above all else, each in as many lines as it needs
  std::string caption;              // a line above; empty: none
  bool is_alarm = false;
  std::vector<ListColumn> columns;
  std::vector<ListRow> rows;
  std::string empty;  // said if there are no rows
};

/// The position in a list. Survives changes of the list: clamped when used.
struct ListState {
  std::size_t selected = 0, top = 0;
  std::optional<std::size_t> sorted_by;  // a column; none: the list's own order
};

/// Moves the selection by this many rows, and stays within the list.
void move_selection(ListState& state, const List& list, std::int64_t by);
/// Stably sorts the rows by the chosen column, largest first.
void sort_rows(List& list, const ListState& state);
/// The next (1) or previous (-1) column that can be sorted by; beyond the last, the list's own order.
void next_order(ListState& state, const List& list, int by);
/// Selects the next row (`by` = 1) or the previous one (-1) that contains `text`, ignoring case; false if none does.
bool find_row(ListState& state, const List& list, std::string_view text, int by);
/// The selected row; null if there is none.
const ListRow* selected_row(const ListState& state, const List& list);
/// The row as text: cells with tabs between them.
std::string row_text(const ListRow& row);

struct DrawnList {
  Area rows;              // where the rows are
  std::size_t first = 0;  // the row at its top
};
/// Scrolls so that the selected row is in view.
DrawnList draw_list(Screen& screen, const Area& area, const List& list, ListState& state, const Look& look);

// What every view shares around its list: the line at the bottom, into which a search is typed, and the box of keys.

enum class Typed : std::uint8_t { more, done, cancelled };

/// Changes `text`, of at most 1,000 bytes, as a key does.
Typed type_into(std::string& text, const Key& key);
void draw_prompt(Screen& screen, int y, std::string_view text, const Look& look);

/// "copied: 300.98 MiB  11.8 ms  oom": what is said of a row that is copied with tabs.
std::string copied_words(std::string_view row);

struct HelpLine {
  std::string_view keys, what;
};

/// `top`: the first line in view; clamped. `title`: what the keys are of.
void draw_help(Screen& screen, std::string_view title, std::span<const HelpLine> lines, int& top, const Look& look);

}  // namespace memreel::viewer::terminal
