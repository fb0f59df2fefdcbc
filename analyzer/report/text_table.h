// Tables for terminals: columns line up, numbers to the right, long cells are cut rather than wrapped.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

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

  /// Writes title, rule and rows, each line indented by `indent` spaces and without trailing blanks.
  void print(std::ostream& out, int indent = 0) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_rule;
  };

  std::vector<TableColumn> columns_;
  std::vector<Row> rows_;
};

/// Number of terminal columns that UTF-8 text takes, one per code point.
std::size_t display_width(const std::string& text);

}  // namespace memreel
