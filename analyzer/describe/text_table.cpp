// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/text_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <ostream>

#include "analyzer/describe/clipped_place.h"

namespace memreel {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t least_text = 8;  // columns kept of a clipped cell

}  // namespace

/// Computes the widths of columns.
class TextTable::Layout {
 public:
  Layout(const TextTable& table, std::size_t indent, std::size_t width) : table_(table), indent_(indent) {
    const std::vector<TableColumn>& columns = table.columns_;
    for (std::size_t c = 0; c < columns.size(); ++c) widths_.push_back(width_of(c, display_width));
    if (total() <= width) return;
    const std::size_t natural = widths_.empty() ? 0 : widths_.back();
    if (columns.size() > 1 && columns.back().align == Align::left && columns.back().fit == Fit::wrapped) {
      widths_.back() = width_of(columns.size() - 1, longest_word);
      last_ = total() <= width ? Last::wrapped : Last::below;
      if (last_ == Last::below) widths_.pop_back();
    }
    for (std::size_t* widest = widest_text(); widest != nullptr && total() > width; widest = widest_text()) --*widest;
    if (last_ == Last::wrapped) widths_.back() = std::min(natural, widths_.back() + width - std::min(width, total()));
    room_ = last_ == Last::below ? width - std::min(width - 1, below_indent()) : widths_.back();
    if (columns.back().align == Align::left && columns.back().fit == Fit::clipped) clip_places();
  }

  void print(std::ostream& out, const std::vector<std::string>& cells) const {
    const auto cell_of = [&](std::size_t c) { return c < cells.size() ? cells[c] : std::string(); };
    const std::vector<std::string> lines =
        last_ == Last::beside ? std::vector<std::string>{} : wrapped_lines(cell_of(table_.columns_.size() - 1), room_);
    std::string line(indent_, ' ');
    for (std::size_t c = 0; c < widths_.size(); ++c) {
      const bool is_wrapped = last_ == Last::wrapped && c + 1 == widths_.size();
      const std::string cell = is_wrapped ? lines.front() : clipped(cell_of(c), c);
      const std::string padding(widths_[c] - std::min(widths_[c], display_width(cell)), ' ');
      if (c != 0) line += std::string(gap, ' ');
      line += table_.columns_[c].align == Align::right ? padding + cell : cell + padding;
    }
    write(out, std::move(line));
    const bool below = last_ == Last::below;
    for (std::size_t i = below ? 0 : 1; i < lines.size(); ++i)
      if (!lines[i].empty()) write(out, std::string(below ? below_indent() : total() - widths_.back(), ' ') + lines[i]);
  }

  void print_rule(std::ostream& out) const {
    std::string line(indent_, ' ');
    for (std::size_t c = 0; c < widths_.size(); ++c) {
      if (c != 0) line += std::string(gap, ' ');
      for (std::size_t i = 0; i < widths_[c]; ++i) line += "─";
    }
    write(out, std::move(line));
  }

 private:
  enum class Last : std::uint8_t { beside, wrapped, below };  // position of the last column

  static void write(std::ostream& out, std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }

  template <class Measure>
  std::size_t width_of(std::size_t column, Measure measure) const {
    std::size_t width = measure(table_.columns_[column].title);
    for (const Row& row : table_.rows_)
      if (column < row.cells.size()) width = std::max(width, measure(row.cells[column]));
    return width;
  }

  void clip_places() {
    std::vector<std::string> labels;
    for (const Row& row : table_.rows_)
      if (row.cells.size() == table_.columns_.size()) labels.push_back(row.cells.back());
    const std::vector<std::string> texts = clipped_places(labels, widths_.back());
    for (std::size_t i = 0; i < labels.size(); ++i) places_.emplace(labels[i], texts[i]);
  }

  std::string clipped(const std::string& cell, std::size_t column) const {
    const auto place = column + 1 == table_.columns_.size() ? places_.find(cell) : places_.end();
    return place != places_.end() ? place->second : clipped_middle(cell, widths_[column]);
  }

  std::size_t below_indent() const { return indent_ + gap; }

  std::size_t total() const {
    const std::size_t gaps = widths_.empty() ? 0 : widths_.size() - 1;
    return std::accumulate(widths_.begin(), widths_.end(), indent_ + gap * gaps);
  }

  /// The widest column whose cells can be clipped further; null if there is none.
  std::size_t* widest_text() {
    std::size_t* widest = nullptr;
    for (std::size_t c = 0; c < widths_.size() - (last_ == Last::wrapped ? 1 : 0); ++c)
      if (table_.columns_[c].align == Align::left && widths_[c] > least_text &&
          (widest == nullptr || widths_[c] > *widest))
        widest = &widths_[c];
    return widest;
  }

  const TextTable& table_;
  std::size_t indent_;
  std::vector<std::size_t> widths_;            // of the columns placed side by side
  std::map<std::string, std::string> places_;  // cells of the last column, if it is clipped, as they fit
  Last last_ = Last::beside;
  std::size_t room_ = 0;  // for the last column, if it does not fit next to the others
};

void TextTable::print(std::ostream& out, int indent, std::size_t width) const {
  const Layout layout(*this, static_cast<std::size_t>(indent), width);
  std::vector<std::string> titles;
  for (const TableColumn& column : columns_) titles.push_back(column.title);
  layout.print(out, titles);
  layout.print_rule(out);
  for (const Row& row : rows_) {
    if (row.is_rule)
      layout.print_rule(out);
    else
      layout.print(out, row.cells);
  }
}

}  // namespace memreel
