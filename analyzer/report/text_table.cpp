#include "analyzer/report/text_table.h"

#include <algorithm>
#include <ostream>

namespace memreel {

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void TextTable::print(std::ostream& out, int indent) const {
  std::vector<std::size_t> widths;
  for (const TableColumn& column : columns_) widths.push_back(display_width(column.title));
  for (const Row& row : rows_) {
    for (std::size_t c = 0; c < std::min(row.cells.size(), widths.size()); ++c) {
      widths[c] = std::max(widths[c], display_width(row.cells[c]));
    }
  }

  const auto print_line = [&](const auto& cell_of) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string cell = cell_of(c);
      const std::string padding(widths[c] - display_width(cell), ' ');
      if (c != 0) line += "  ";
      line += columns_[c].align == Align::right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  const auto rule = [&](std::size_t c) {
    std::string dashes;
    for (std::size_t i = 0; i < widths[c]; ++i) dashes += "─";
    return dashes;
  };

  print_line([&](std::size_t c) { return columns_[c].title; });
  print_line(rule);
  for (const Row& row : rows_) {
    if (row.is_rule)
      print_line(rule);
    else
      print_line([&](std::size_t c) { return c < row.cells.size() ? row.cells[c] : std::string{}; });
  }
}

}  // namespace memreel
