// SPDX-License-Identifier: Apache-2.0
// Tables for terminals, with aligned columns and right-aligned numbers. No line is wider than the terminal.
#pragma once

#include <iosfwd>

#include "formats/model/units.h"
#include "formats/model/wrapping.h"

namespace memreel {

enum class Align : std::uint8_t { left, right };

/// What becomes of text in the last column that is too long for its line.
enum class Fit : std::uint8_t { wrapped, clipped };

struct TableColumn {
  std::string title;
  Align align = Align::left;
  Fit fit = Fit::wrapped;  // clipped: for places in code, which are told apart by their ends
};

class TextTable {
 public:
  explicit TextTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  /// Ignores cells beyond the columns; missing ones are empty.
  void add_row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }
  /// Adds a line between the rows before and after it.
  void add_rule() { rows_.push_back({{}, true}); }
  bool empty() const { return rows_.empty(); }

  /// Writes title, rule and rows, each line indented by `indent` spaces and without trailing blanks. If they are wider
  /// than `width`, the last column, if it is wrapped text, continues on further lines, next to the numbers or, if there
  /// is no room, below them; long cells of other text columns lose their middle. Numbers are never cut.
  void print(std::ostream& out, int indent = 0, std::size_t width = terminal_width()) const;

 private:
  class Layout;

  struct Row {
    std::vector<std::string> cells;
    bool is_rule;
  };

  std::vector<TableColumn> columns_;
  std::vector<Row> rows_;
};

}  // namespace memreel
