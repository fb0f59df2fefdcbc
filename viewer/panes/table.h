// SPDX-License-Identifier: Apache-2.0
// A table with any number of rows that only touches the rows on screen.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include <imgui.h>

#include "analyzer/describe/fields.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {

struct Column {
  const char* title = "";
  float width = 80;    // initial, in units of length; 0: the rest
  bool right = false;  // right-aligned, for numbers
  int sort = -1;       // passed back to sort by this column; -1: not sortable
  bool hidden = false;
};

/// The callbacks of a table for its rows. Everything shown can be copied through the right-click menu. While the table
/// has the keyboard's focus, one of its rows is the cursor: Enter clicks it, Ctrl+Enter double-clicks it.
struct Rows {
  std::uint64_t count = 0;
  std::function<std::string(std::uint64_t row, int column)> cell;
  std::function<bool(std::uint64_t row)> selected;
  std::function<bool(std::uint64_t row)> highlighted;
  std::function<std::optional<Colour>(std::uint64_t row)> swatch;  // a colour before the first column; may be empty
  std::function<void(std::uint64_t row)> on_click;
  std::function<void(std::uint64_t row)> on_double_click;
  std::function<void(std::uint64_t row)> on_hover;

  /// If set, the table sorts by this key when the header with that `sort` was clicked. It sorts again when `of` (the
  /// rows' source), their number or the selected heap changes.
  std::function<double(std::uint64_t row, int sort)> key;
  std::shared_ptr<const void> of;
};

/// The columns of a described row type; numbers can be sorted by.
template <class Row>
std::vector<Column> columns_of() {
  std::vector<Column> columns;
  for_each_column<Row>([&](const ResultField<Row>& field) {
    const bool number = field.is_number();
    columns.push_back({.title = field.title.data(),  // a literal
                       .width = number ? 100.0F : 160.0F,
                       .right = number,
                       .sort = number ? static_cast<int>(columns.size()) : -1});
  });
  if (!columns.back().right) columns.back().width = 0;  // takes the rest
  return columns;
}

/// Their rows, which must outlive the result, as must `tables`.
template <class Row>
Rows rows_of(const Tables& tables, std::span<const Row> all) {
  std::vector<const ResultField<Row>*> fields;
  for_each_column<Row>([&](const ResultField<Row>& field) { fields.push_back(&field); });
  const auto cell = [&tables, all, fields](std::uint64_t row, int column) {
    return fields[static_cast<std::size_t>(column)]->value(tables, all[row]);
  };
  Rows rows;
  rows.count = all.size();
  rows.cell = [cell](std::uint64_t row, int column) { return text_of(cell(row, column)); };
  rows.key = [cell](std::uint64_t row, int column) { return number_of(cell(row, column)); };
  return rows;
}

class Table {
 public:
  Table(const char* name, std::vector<Column> columns) : name_(name), columns_(std::move(columns)) {}

  void draw(Scene& scene, const Rows& rows);
  /// Scrolls so that a row is on screen.
  void show(std::uint64_t row) { wanted_ = cursor_ = row; }

  void hide(int column, bool hidden) { columns_[static_cast<std::size_t>(column)].hidden = hidden; }

  /// The `sort` of the clicked column, and the direction; none until a click.
  std::optional<int> sort() const { return sort_; }
  bool descending() const { return descending_; }
  void set_sort(int sort, bool descending) {
    sort_ = sort;
    descending_ = descending;
  }

 private:
  /// The number of columns that fit; a column of width 0 gets its share and is always shown.
  std::size_t shown_columns(float width, const Scene& scene) const;
  Rows sorted(const Rows& rows, HeapId heap);
  void draw_rows(Scene& scene, const Rows& rows);
  void scroll(Scene& scene, const Rows& rows, std::uint64_t visible);
  /// Keys for the rows, if the table has the focus.
  void take_keys(Scene& scene, const Rows& rows, std::uint64_t visible, std::span<const FocusKey> keys);
  void step_column(int by);
  /// The place of a column's header.
  std::string header_name(const Column& column) const { return std::string(name_) + "/" + column.title; }
  void draw_scrollbar(Scene& scene, const Rows& rows, std::uint64_t visible, float top, float bottom, float right);
  void draw_row(Scene& scene, const Rows& rows, std::uint64_t row);
  bool begin_row(Scene& scene, const Rows& rows, std::uint64_t row);
  void draw_cell(Scene& scene, const Rows& rows, std::uint64_t row, int column, bool is_hovered);
  void draw_menu(Scene& scene, const Rows& rows);
  void draw_headers(Scene& scene);

  const char* name_;
  std::vector<Column> columns_;
  double first_ = 0;  // the top row: a pixel position would be inexact with 35 million rows
  std::optional<std::uint64_t> wanted_;
  std::optional<std::uint64_t> cursor_;  // the keyboard's row,
  int cursor_column_ = 0;                // and its cell, which the menu copies
  std::vector<int> shown_;               // the columns on screen
  bool menu_at_cursor_ = false;          // the menu was opened by a key
  std::uint64_t menu_row_ = 0;           // the row that was right-clicked
  int menu_column_ = 0;
  bool wants_menu_ = false;  // for it
  std::optional<int> sort_;
  bool descending_ = true;
  /// The sorted rows, and the inputs of the sort.
  std::vector<std::uint64_t> order_;
  std::shared_ptr<const void> order_of_;
  HeapId order_heap_ = HeapId::none;
  std::optional<int> order_by_;
  bool order_descending_ = true;
};

}  // namespace memreel::viewer
