// A table of any number of rows of which only those on screen are ever looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <imgui.h>

#include "viewer/panes/scene.h"

namespace memreel::viewer {

struct Column {
  const char* title = "";
  float width = 80;    // at first, in units of length; 0: what is left
  bool right = false;  // numbers
  int sort = -1;       // passed back when the table is to be sorted by it; -1: it can't be
  bool hidden = false;
};

/// What a table does with the rows that it shows. Whatever it shows can be copied: a right click asks what of it.
struct Rows {
  std::uint64_t count = 0;
  std::function<std::string(std::uint64_t row, int column)> cell;
  std::function<bool(std::uint64_t row)> selected;
  std::function<bool(std::uint64_t row)> highlighted;
  std::function<std::optional<Colour>(std::uint64_t row)> swatch;  // shown before the first column; may be empty
  std::function<void(std::uint64_t row)> on_click;
  std::function<void(std::uint64_t row)> on_double_click;
  std::function<void(std::uint64_t row)> on_hover;

  /// Where set, the table sorts: what rows are compared by when the header with that `sort` was clicked. They are
  /// sorted anew when `of`, what they are rows of, their number or the selected heap is another.
  std::function<double(std::uint64_t row, int sort)> key;
  std::shared_ptr<const void> of;
};

class Table {
 public:
  Table(const char* name, std::vector<Column> columns) : name_(name), columns_(std::move(columns)) {}

  void draw(Scene& scene, const Rows& rows);
  /// Scrolls so that a row is on screen.
  void show(std::uint64_t row) { wanted_ = row; }

  void hide(int column, bool hidden) { columns_[static_cast<std::size_t>(column)].hidden = hidden; }

  /// The `sort` of the column that was clicked, and the direction; none before.
  std::optional<int> sort() const { return sort_; }
  bool descending() const { return descending_; }
  void set_sort(int sort, bool descending) {
    sort_ = sort;
    descending_ = descending;
  }

 private:
  /// How many columns there is room for; one of width 0 has its part of it, and is shown anyway.
  std::size_t shown_columns(float width, const Scene& scene) const;
  Rows sorted(const Rows& rows, HeapId heap);
  void draw_rows(Scene& scene, const Rows& rows);
  void scroll(const Rows& rows, std::uint64_t visible);
  void draw_scrollbar(Scene& scene, const Rows& rows, std::uint64_t visible, float top, float bottom, float right);
  void draw_row(Scene& scene, const Rows& rows, std::uint64_t row);
  static bool begin_row(Scene& scene, const Rows& rows, std::uint64_t row);
  void draw_cell(Scene& scene, const Rows& rows, std::uint64_t row, int column, bool is_hovered);
  void draw_menu(Scene& scene, const Rows& rows);
  void draw_headers(Scene& scene);

  const char* name_;
  std::vector<Column> columns_;
  double first_ = 0;  // the row at the top: a position in pixels of 35 million rows is no longer exact
  std::optional<std::uint64_t> wanted_;
  std::uint64_t menu_row_ = 0;  // what a right click was on
  int menu_column_ = 0;
  std::optional<int> sort_;
  bool descending_ = true;
  /// The rows as they are sorted, and what that was made of.
  std::vector<std::uint64_t> order_;
  std::shared_ptr<const void> order_of_;
  HeapId order_heap_ = HeapId::none;
  std::optional<int> order_by_;
  bool order_descending_ = true;
};

}  // namespace memreel::viewer
