// Tables for terminals: columns line up, numbers to the right, and no line is wider than the terminal.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/report/terminal_text.h"

namespace memreel {

enum class Align : std::uint8_t { left, right };

struct TableColumn {
  std::string title;
  Align align = Align::left;
};

class TextTable {
 public:
  explicit TextTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  /// Cells beyond the columns are ignored; missing ones are empty.
  void add_row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }
  /// A line between the rows before and after it.
  void add_rule() { rows_.push_back({{}, true}); }
  bool empty() const { return rows_.empty(); }

  /// Writes title, rule and rows, each line indented by `indent` spaces and without trailing blanks. Where they are
  /// wider than `width`, the last column, if it is text, continues on further lines, beside the numbers or, where there
  /// is no room, below them; of other columns of text the middle of long cells is left out. Numbers are always whole.
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
