// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/heaps_pane.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

constexpr std::size_t most_heaps = 64;  // visited in a frame at most

/// By device, each device's largest first.
std::vector<const HeapSeries*> ordered_heaps(const Document& document) {
  std::vector<const HeapSeries*> heaps;
  for (const HeapSeries& series : document.heaps) heaps.push_back(&series);
  const auto order = [&](const HeapSeries* series) {
    return std::pair{(*document.tables)[series->heap].device, ~std::max(series->peak_reserved, series->peak_live)};
  };
  std::ranges::stable_sort(heaps, {}, order);
  if (heaps.size() > most_heaps) heaps.resize(most_heaps);
  return heaps;
}

/// The part of the pane with the time axis: the timeline's, so that both have the same edges; names are beside it.
Area time_area(const Scene& scene, const Area& row) {
  const auto timeline = scene.places.find("timeline");
  if (timeline != scene.places.end()) {
    const ImVec4& place = timeline->second;
    if (place.x >= row.left && row.right - (place.x + place.z) > scene.px(120))
      return {place.x, row.top, place.x + place.z, row.bottom};
  }
  return {row.left, row.top, std::max(row.right - scene.px(260), row.left + scene.px(60)), row.bottom};
}

}  // namespace

void HeapsPane::draw(Scene& scene) {
  const Document& document = scene.doc();
  for (const bool one : {true, false}) {
    if (radio_button(scene, one ? "heaps/same scale" : "heaps/own scales", one_scale_ == one)) one_scale_ = one;
    ImGui::SameLine();
  }
  ImGui::TextDisabled("   reserved and live bytes of each heap; click: show it");
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "heaps", {at.x, at.y, at.x + size.x, at.y + size.y});
  const Area whole = time_area(scene, {at.x, at.y, at.x + size.x, at.y + size.y});
  const Key key{scene.selection.view, scene.selection.axis, static_cast<std::uint32_t>(std::max(whole.width(), 1.0F)),
                document.event_count()};
  rows_.request(
      key,
      [document = scene.document, key](const Progress& progress) -> std::optional<Rows> {
        const std::vector<Nanoseconds> edges = key.axis.edges(key.view.begin, key.view.end, key.width);
        Rows rows;
        for (const HeapSeries* const series : ordered_heaps(*document)) {
          if (progress.cancelled()) return std::nullopt;
          rows.push_back({series->heap, series_columns(*document, *series, edges)});
        }
        return rows;
      },
      false);
  if (!rows_.is_current()) scene.busy = true;
  shown_ = rows_.value();
  if (!shown_) return;
  std::uint64_t most = 1;
  for (const Row& row : *shown_) most = std::max(most, highest(row.columns));
  ImGui::BeginChild("rows");
  const float gap = scene.px(4), least = 2 * ImGui::GetTextLineHeight() + scene.px(6);
  const float room = ImGui::GetContentRegionAvail().y / static_cast<float>(std::max<std::size_t>(shown_->size(), 1));
  const float height = std::max(room - gap, least);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, gap});
  for (const Row& row : *shown_) {
    const ImVec2 from = ImGui::GetCursorScreenPos();
    ImGui::PushID(static_cast<int>(index(row.heap)));
    const Area area{from.x, from.y, from.x + ImGui::GetContentRegionAvail().x, from.y + height};
    ImGui::InvisibleButton("heap", {std::max(area.width(), 1.0F), height},
                           ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
    if (ImGui::IsItemVisible())
      draw_row(scene, row, area, (one_scale_ ? most : std::max<std::uint64_t>(highest(row.columns), 1)) * 13 / 12);
    ImGui::PopID();
  }
  ImGui::PopStyleVar();
  ImGui::EndChild();
}

void HeapsPane::draw_row(Scene& scene, const Row& row, const Area& area, std::uint64_t top) {
  const Document& document = scene.doc();
  const HeapSeries* const series = document.series(row.heap);
  if (series == nullptr) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Area plot = time_area(scene, area);
  const bool chosen = scene.selection.heap == row.heap;
  const std::string name = "heaps/" + std::to_string(index(row.heap));
  note_place(scene, name, plot);
  scene.focus.add(name, FocusKind::drawn, plot.min(), plot.max());
  const TimeAxis axis(scene.selection.view, plot, scene.selection.axis);
  fill(list, plot, scene.theme.ground);
  list.PushClipRect(plot.min(), plot.max(), true);
  const Key& key = *rows_.key();
  const double left = axis.exact_x_of(key.view.begin);
  const double step = (axis.exact_x_of(key.view.end) - left) / std::max(key.width, 1U);
  draw_series(scene.theme, list, plot, top, row.columns, series->has_pending,
              [&](std::size_t x) { return static_cast<float>(left + step * static_cast<double>(x)); });
  label(scene, list, {plot.left + scene.px(6), plot.top + scene.px(2)}, tick_text(top * 12 / 13));
  draw_instants(scene, list, axis, plot);
  list.PopClipRect();
  if (chosen) outline(list, plot, scene.theme.accent, scene.px(1.5));

  const float room = area.right - plot.right - scene.px(12), x = plot.right + scene.px(12);
  const Metrics now = document.metrics_after(*series, scene.selection.cursor);
  const auto line = [&](int number, Colour colour, const std::string& what) {
    text(list, {x, area.top + static_cast<float>(number) * ImGui::GetTextLineHeight()}, colour, fitting(what, room));
  };
  line(0, chosen ? scene.theme.text : scene.theme.faint, heap_label(scene.tables(), row.heap));
  const std::string live = text_of(Bytes{value_of(now, Metric::live)}) + " live";
  line(1, scene.theme.faint,
       series->has_segments ? live + " of " + text_of(Bytes{value_of(now, Metric::reserved)}) : live);
  if (area.height() > 3 * ImGui::GetTextLineHeight())
    line(2, scene.theme.faint, "peak " + text_of(Bytes{std::max(series->peak_live, series->peak_reserved)}));
  const bool clicked = ImGui::IsItemDeactivated() && ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !was_dragged();
  if ((clicked || scene.focus.takes(name)) && !chosen) {
    scene.selection.heap = row.heap;
    scene.selection.clear();
  }
  navigate(scene, axis, plot, plot.contains(ImGui::GetIO().MousePos));
}

}  // namespace memreel::viewer
