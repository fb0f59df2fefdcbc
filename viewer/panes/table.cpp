// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/table.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "formats/model/quantity.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

void Table::draw_headers(Scene& scene) {
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (int c = 0; c < static_cast<int>(columns_.size()); ++c) {
    const Column& column = columns_[static_cast<std::size_t>(c)];
    if (!ImGui::TableSetColumnIndex(c) || column.hidden) continue;
    ImGui::PushID(c);
    const bool is_sorted = sort_ && column.sort == *sort_;
    const std::string title = std::string(column.title) + (is_sorted ? (descending_ ? " \u25BE" : " \u25B4") : "");
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x;
    if (ImGui::InvisibleButton("header", {std::max(width, 1.0F), ImGui::GetTextLineHeight()}) && column.sort >= 0) {
      descending_ = is_sorted ? !descending_ : true;
      sort_ = column.sort;
      first_ = 0;
    }
    const Area area{at.x, at.y, at.x + width, at.y + ImGui::GetTextLineHeight()};
    note_place(scene, header_name(column), area);
    if (column.sort >= 0) scene.focus.add_item(header_name(column), FocusKind::header);
    text(*ImGui::GetWindowDrawList(), {column.right ? area.right : area.left, at.y},
         is_sorted ? scene.theme.text : scene.theme.faint, fitting(title, width), column.right ? 1.0F : 0.0F);
    ImGui::PopID();
  }
}

void Table::step_column(int by) {
  const auto here = std::ranges::find(shown_, cursor_column_);
  if (here == shown_.end()) {
    cursor_column_ = shown_.empty() ? 0 : shown_.front();
  } else if (by < 0 ? here != shown_.begin() : here + 1 != shown_.end()) {
    cursor_column_ = *(here + by);
  }
}

void Table::take_keys(Scene& scene, const Rows& rows, std::uint64_t visible, std::span<const FocusKey> keys) {
  if (!scene.focus.has(name_) || rows.count == 0) return;
  const std::uint64_t last = rows.count - 1, page = std::max<std::uint64_t>(visible, 2) - 1;
  if (!cursor_) {
    cursor_ = std::min(static_cast<std::uint64_t>(first_), last);
    for (std::uint64_t row = *cursor_; rows.selected && row < std::min(rows.count, *cursor_ + visible); ++row)
      if (rows.selected(row)) cursor_ = row;
  }
  std::uint64_t row = std::min(*cursor_, last);
  for (const FocusKey key : keys) {
    switch (key) {
      case FocusKey::up: {
        const auto sortable =
            std::ranges::find_if(shown_, [&](int c) { return columns_[static_cast<std::size_t>(c)].sort >= 0; });
        if (row > 0)
          --row;
        else if (sortable != shown_.end())
          scene.focus.move_to(header_name(columns_[static_cast<std::size_t>(*sortable)]));
        break;
      }
      case FocusKey::down:
        row = std::min(row + 1, last);
        break;
      case FocusKey::page_up:
        row -= std::min(row, page);
        break;
      case FocusKey::page_down:
        row = std::min(row + page, last);
        break;
      case FocusKey::home:
        row = 0;
        break;
      case FocusKey::end:
        row = last;
        break;
      case FocusKey::left:
      case FocusKey::right:
        step_column(key == FocusKey::left ? -1 : 1);
        break;
      case FocusKey::press:
        if (rows.on_click) rows.on_click(row);
        break;
      case FocusKey::open:
        if (rows.on_double_click)
          rows.on_double_click(row);
        else if (rows.on_click)
          rows.on_click(row);
        break;
      case FocusKey::menu:
        menu_row_ = row;
        menu_column_ = cursor_column_;
        wants_menu_ = menu_at_cursor_ = true;
        break;
      default:
        break;
    }
  }
  if (!keys.empty()) {
    const auto at = static_cast<double>(row);
    first_ = std::clamp(first_, at - static_cast<double>(std::max<std::uint64_t>(visible, 1) - 1), at);
    wanted_.reset();
  }
  cursor_ = row;
  scene.focus.set_row(row);
  if (rows.on_hover && !ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) rows.on_hover(row);
}

void Table::scroll(Scene& scene, const Rows& rows, std::uint64_t visible) {
  const ImGuiIO& io = ImGui::GetIO();
  const double page = static_cast<double>(std::max<std::uint64_t>(visible, 2) - 1);
  if (ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) {
    first_ -= 3 * static_cast<double>(io.MouseWheel);
    if (!is_typing() && !scene.focus.is_on()) {
      if (key_pressed(ImGuiKey_PageDown)) first_ += page;
      if (key_pressed(ImGuiKey_PageUp)) first_ -= page;
      if (key_pressed(ImGuiKey_End)) first_ = static_cast<double>(rows.count);
      if (key_pressed(ImGuiKey_Home)) first_ = 0;
    }
  }
  if (wanted_) {
    const auto row = static_cast<double>(*wanted_);
    if (row < first_ || row >= first_ + page) first_ = row - page / 2;
    wanted_.reset();
  }
  const double last = rows.count > visible ? static_cast<double>(rows.count - visible) : 0;
  first_ = std::clamp(first_, 0.0, last);
}

void Table::draw_scrollbar(Scene& scene, const Rows& rows, std::uint64_t visible, float top, float bottom,
                           float right) {
  if (rows.count <= visible) return;
  const float width = scene.px(10);
  ImGui::SetCursorScreenPos({right - width, top});
  ImGui::InvisibleButton("scrollbar", {width, std::max(bottom - top, 1.0F)});
  const auto count = static_cast<double>(rows.count);
  const float length =
      std::max(scene.px(24), static_cast<float>(static_cast<double>(visible) / count) * (bottom - top));
  const auto room = static_cast<double>(bottom - top - length);
  const double last = count - static_cast<double>(visible);
  if (ImGui::IsItemActive() && room > 0) {
    const double at = static_cast<double>(ImGui::GetIO().MousePos.y - top - length / 2) / room;
    first_ = std::round(std::clamp(at, 0.0, 1.0) * last);
  }
  const float y = top + static_cast<float>(room * (first_ / last));
  ImGui::GetWindowDrawList()->AddRectFilled({right - width + scene.px(2), y}, {right - scene.px(2), y + length},
                                            ImGui::IsItemHovered() ? scene.theme.faint : scene.theme.line, scene.px(3));
  note_place(scene, std::string(name_) + "/scrollbar", {right - width, top, right, bottom});
}

std::size_t Table::shown_columns(float width, const Scene& scene) const {
  constexpr double least_rest = 130;  // for the column that takes the rest: a file and a line
  const bool has_rest = std::ranges::any_of(columns_, [](const Column& c) { return c.width == 0 && *c.title != 0; });
  float taken = has_rest ? scene.px(least_rest) : 0;
  std::size_t shown = 0;
  for (; shown < columns_.size(); ++shown) {
    if (columns_[shown].width == 0 || columns_[shown].hidden) continue;
    taken += scene.px(static_cast<double>(columns_[shown].width)) + 2 * ImGui::GetStyle().CellPadding.x;
    if (shown != 0 && taken > width) break;
  }
  return shown;
}

/// Row-wide behaviour, in the first cell. True when the mouse is on the row.
bool Table::begin_row(Scene& scene, const Rows& rows, std::uint64_t row) {
  if (ImGui::Selectable("##row", rows.selected && rows.selected(row),
                        ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick)) {
    cursor_ = row;
    if (rows.on_click) rows.on_click(row);
  }
  const bool is_hovered = ImGui::IsItemHovered();
  if (is_hovered) {
    if (rows.on_hover) rows.on_hover(row);
    if (rows.on_double_click && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) rows.on_double_click(row);
  } else if (rows.highlighted && rows.highlighted(row)) {
    ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg0, with_alpha(scene.theme.accent, 0x30));
  }
  ImGui::SameLine(0, 0);
  if (const auto swatch = rows.swatch ? rows.swatch(row) : std::nullopt) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float size = std::floor(ImGui::GetTextLineHeight() * 0.62F), drop = (ImGui::GetTextLineHeight() - size) / 2;
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + drop}, {at.x + size, at.y + drop + size}, *swatch,
                                              scene.px(2));
    ImGui::SetCursorScreenPos({at.x + size + scene.px(6), at.y});
  }
  return is_hovered;
}

void Table::draw_cell(Scene& scene, const Rows& rows, std::uint64_t row, int column, bool is_hovered) {
  const bool right = columns_[static_cast<std::size_t>(column)].right;
  const std::string cell = rows.cell(row, column);
  const float width = ImGui::GetContentRegionAvail().x;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  // Measure first, because most texts fit.
  float taken = ImGui::CalcTextSize(cell.data(), cell.data() + cell.size()).x;
  const bool fits = taken <= width;
  const std::string cut = fits ? std::string() : fitting(cell, width);
  if (!fits) taken = ImGui::CalcTextSize(cut.data(), cut.data() + cut.size()).x;
  text(*ImGui::GetWindowDrawList(), {right ? at.x + width - taken : at.x, at.y}, scene.theme.text, fits ? cell : cut);
  if (fits || !is_hovered) return;
  if (!ImGui::IsMouseHoveringRect(at, {at.x + width, at.y + ImGui::GetTextLineHeight()}, false)) return;
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(scene.px(520));
  ImGui::TextUnformatted(cell.c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void Table::draw_row(Scene& scene, const Rows& rows, std::uint64_t row) {
  ImGui::TableNextRow();
  ImGui::PushID(static_cast<int>(row % (1U << 30U)));
  bool is_hovered = false;
  for (int c = 0; c < static_cast<int>(columns_.size()); ++c) {
    if (!ImGui::TableSetColumnIndex(c)) continue;
    if (c == 0) is_hovered = begin_row(scene, rows, row);
    if (c == cursor_column_ && cursor_ == row && scene.focus.has(name_))
      ImGui::TableSetBgColor(ImGuiTableBgTarget_CellBg, with_alpha(scene.theme.accent, 0x48));
    draw_cell(scene, rows, row, c, is_hovered);
  }
  ImGui::PopID();
}

void Table::draw_menu(Scene& scene, const Rows& rows) {
  constexpr std::uint64_t most = 100'000;  // rows that can be copied without a noticeable delay
  if (std::exchange(menu_at_cursor_, false)) {
    const auto place = scene.places.find(std::string(name_) + "/row");
    if (place != scene.places.end()) {
      const auto& [left, top, width, height] = place->second;
      const bool has_room = top + 6 * height < ImGui::GetIO().DisplaySize.y;
      ImGui::SetNextWindowPos({left + scene.px(24), has_room ? top + height : top}, ImGuiCond_Always,
                              {0, has_room ? 0.0F : 1.0F});
    }
  }
  if (!ImGui::BeginPopup("copy")) return;
  if (menu_row_ >= rows.count) {
    ImGui::CloseCurrentPopup();
    return ImGui::EndPopup();
  }
  const auto line = [&](std::uint64_t row) {
    std::string text;
    for (int c = 0; c < static_cast<int>(columns_.size()); ++c)
      if (!columns_[static_cast<std::size_t>(c)].hidden) text += (c == 0 ? "" : "\t") + rows.cell(row, c);
    return text;
  };
  const std::string cell = rows.cell(menu_row_, menu_column_);
  if (!cell.empty() && ImGui::MenuItem(("Copy \u201C" + fitting(cell, scene.px(320)) + "\u201D").c_str()))
    ImGui::SetClipboardText(cell.c_str());
  if (!cell.empty()) note_item(scene, "copy/cell");
  if (ImGui::MenuItem("Copy row")) ImGui::SetClipboardText(line(menu_row_).c_str());
  note_item(scene, "copy/row");
  const std::uint64_t count = std::min(rows.count, most);
  if (count > 1) {
    const std::string all = count == rows.count ? "all " : "the first ";
    if (ImGui::MenuItem(("Copy " + all + counted(count, "row")).c_str())) {
      std::string text;
      for (std::size_t c = 0; c < columns_.size(); ++c)
        if (!columns_[c].hidden) text += std::string(c == 0 ? "" : "\t") + columns_[c].title;
      for (std::uint64_t row = 0; row < count; ++row) text += "\n" + line(row);
      ImGui::SetClipboardText(text.c_str());
    }
    note_item(scene, "copy/all");
  }
  ImGui::EndPopup();
}

Rows Table::sorted(const Rows& rows, HeapId heap) {
  if (order_of_ != rows.of || order_heap_ != heap || order_.size() != rows.count || order_by_ != sort_ ||
      order_descending_ != descending_) {
    order_of_ = rows.of;
    order_heap_ = heap;
    order_by_ = sort_;
    order_descending_ = descending_;
    std::vector<double> keys(rows.count);
    for (std::uint64_t row = 0; row < rows.count; ++row) keys[row] = rows.key(row, *sort_);
    order_.resize(rows.count);
    std::iota(order_.begin(), order_.end(), std::uint64_t{0});
    std::ranges::stable_sort(
        order_, [&](std::uint64_t a, std::uint64_t b) { return descending_ ? keys[a] > keys[b] : keys[a] < keys[b]; });
  }
  const auto of_row = [&](const auto& function) {
    std::remove_cvref_t<decltype(function)> result;
    if (function) result = [&](std::uint64_t row, auto... more) { return function(order_[row], more...); };
    return result;
  };
  Rows result;
  result.count = rows.count;
  result.cell = of_row(rows.cell);
  result.selected = of_row(rows.selected);
  result.highlighted = of_row(rows.highlighted);
  result.swatch = of_row(rows.swatch);
  result.on_click = of_row(rows.on_click);
  result.on_double_click = of_row(rows.on_double_click);
  result.on_hover = of_row(rows.on_hover);
  return result;
}

void Table::draw(Scene& scene, const Rows& rows) {
  draw_rows(scene, rows.key && sort_ ? sorted(rows, scene.selection.heap) : rows);
}

void Table::draw_rows(Scene& scene, const Rows& rows) {
  ImGui::BeginChild(name_, {0, 0}, false, ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  const float row_height = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const float header_height = row_height + scene.px(2);
  const auto visible = static_cast<std::uint64_t>(std::max(1.0F, std::floor((size.y - header_height) / row_height)));
  const std::span<const FocusKey> keys =
      scene.focus.add_list(name_, {at.x, at.y + header_height}, {at.x + size.x, at.y + size.y});
  take_keys(scene, rows, visible, keys);
  scroll(scene, rows, visible);
  note_place(scene, name_, {at.x, at.y, at.x + size.x, at.y + size.y});
  note_place(scene, std::string(name_) + "/first row",
             {at.x, at.y + header_height, at.x + size.x, at.y + header_height + row_height});

  if (ImGui::BeginTable(name_, static_cast<int>(columns_.size()),
                        ImGuiTableFlags_Resizable | ImGuiTableFlags_NoBordersInBody | ImGuiTableFlags_SizingFixedFit |
                            ImGuiTableFlags_NoSavedSettings | ImGuiTableFlags_NoKeepColumnsVisible,
                        {size.x - scene.px(12), 0})) {
    const std::size_t shown = shown_columns(size.x - scene.px(12), scene);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Column& column = columns_[c];
      const ImGuiTableColumnFlags width =
          column.width == 0 ? ImGuiTableColumnFlags_WidthStretch : ImGuiTableColumnFlags_WidthFixed;
      ImGui::TableSetupColumn(
          column.title,
          !column.hidden && (column.width == 0 || c < shown) ? width : width | ImGuiTableColumnFlags_Disabled,
          column.width == 0 ? 1.0F : scene.px(static_cast<double>(column.width)));
    }
    shown_.clear();
    for (int c = 0; c < static_cast<int>(columns_.size()); ++c)
      if ((ImGui::TableGetColumnFlags(c) & ImGuiTableColumnFlags_IsEnabled) != 0 &&
          *columns_[static_cast<std::size_t>(c)].title != 0)
        shown_.push_back(c);
    draw_headers(scene);
    const auto first = static_cast<std::uint64_t>(first_);
    const std::uint64_t end = std::min(rows.count, first + visible);
    const float top = ImGui::GetCursorScreenPos().y;
    for (std::uint64_t row = first; row < end; ++row) draw_row(scene, rows, row);
    // The space between two rows belongs to one of them.
    const float below = ImGui::GetIO().MousePos.y - std::max(top, at.y + header_height);
    const auto row = first + static_cast<std::uint64_t>(std::max(below, 0.0F) / row_height);
    if (ImGui::IsMouseReleased(ImGuiMouseButton_Right) && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows) &&
        below >= 0 && row < end) {
      menu_row_ = row;
      menu_column_ = 0;
      for (int c = 0; c < static_cast<int>(columns_.size()); ++c)
        if ((ImGui::TableGetColumnFlags(c) & ImGuiTableColumnFlags_IsHovered) != 0) menu_column_ = c;
      wants_menu_ = true;
    }
    ImGui::EndTable();
    if (cursor_ && scene.focus.has(name_) && *cursor_ >= first && *cursor_ < end) {
      const float y = std::max(top, at.y + header_height) + static_cast<float>(*cursor_ - first) * row_height;
      const Area cursor{at.x + scene.px(2), y, at.x + size.x - scene.px(12), y + row_height};
      outline(*ImGui::GetWindowDrawList(), cursor, scene.theme.accent, scene.px(1.5));
      note_place(scene, std::string(name_) + "/row", cursor);
    }
  }
  if (std::exchange(wants_menu_, false)) ImGui::OpenPopup("copy");
  draw_menu(scene, rows);
  draw_scrollbar(scene, rows, visible, at.y + header_height, at.y + size.y, at.x + size.x);
  ImGui::EndChild();
}

}  // namespace memreel::viewer
