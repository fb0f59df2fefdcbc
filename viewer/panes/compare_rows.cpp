#include "viewer/panes/compare_rows.h"

#include <algorithm>
#include <cmath>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/series.h"

namespace memreel::viewer {
namespace {

constexpr double axis_height = 16;

std::vector<SeriesColumn> columns_of(const CompareSide& side, double begin, double end, std::uint32_t width) {
  const Document& document = *side.moment.document;
  const HeapSeries* const series = document.series(side.moment.heap);
  if (series == nullptr || document.empty()) return {};
  std::vector<Nanoseconds> edges;
  for (std::uint32_t x = 0; x <= width; ++x) edges.push_back(side.scale.time_at(begin + (end - begin) * x / width));
  std::vector<SeriesColumn> columns = series_columns(document, *series, edges);
  // Nothing is shown before a trace or after it.
  const Nanoseconds first = document.first_time(), last = document.last_time();
  for (std::uint32_t x = 0; x < width; ++x)
    if (edges[x + 1] < first || edges[x] > last) columns[x] = {};
  return columns;
}

}  // namespace

CompareRows::Range CompareRows::range_of(const Selection& selection, const CompareSides& sides, std::size_t reference) {
  const CompareSide& side = sides.at(reference);
  Range range{side.scale.position_of(selection.view.begin), side.scale.position_of(selection.view.end)};
  const Document& document = *side.moment.document;
  const bool is_all = selection.view.begin <= document.first_time() && selection.view.end > document.last_time();
  if (!is_all) return range;
  for (const CompareSide& other : sides) {
    range.begin = std::min(range.begin, other.scale.position_of(other.moment.document->first_time()));
    range.end = std::max(range.end, other.scale.position_of(other.moment.document->last_time()));
  }
  return range;
}

void CompareRows::request(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by, float width) {
  Key key{.by = by, .range = range, .width = static_cast<std::uint32_t>(std::max(width, 1.0F))};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    key.documents.at(i) = sides.at(i).moment.document;
    key.heaps.at(i) = sides.at(i).moment.heap;
    key.begins.at(i) = sides.at(i).scale.time_at(range.begin);
    key.ends.at(i) = sides.at(i).scale.time_at(range.end);
  }
  columns_.request(
      key,
      [sides, key](const Progress& progress) -> std::optional<Columns> {
        Columns columns;
        for (std::size_t i = 0; i < sides.size(); ++i) {
          if (progress.cancelled()) return std::nullopt;
          columns.at(i) = columns_of(sides.at(i), key.range.begin, key.range.end, key.width);
        }
        return columns;
      },
      false);
  if (!columns_.is_current()) scene.busy = true;
}

std::optional<CompareRows::Click> CompareRows::draw_row(Scene& scene, const CompareSides& sides, std::size_t number,
                                                        const Range& range, std::uint64_t top) {
  const CompareSide& side = sides.at(number);
  const std::string name = number == 0 ? "A" : "B";
  const Area area = take_area(name.c_str());
  note_place(scene, "compare/row " + name, area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, area, scene.theme.ground);
  const double per_pixel = (range.end - range.begin) / static_cast<double>(area.width());
  const auto x_at = [&](double position) {
    return area.left + static_cast<float>(std::clamp((position - range.begin) / per_pixel, -1e6, 1e6));
  };
  const HeapSeries* const series = side.moment.document->series(side.moment.heap);
  list.PushClipRect(area.min(), area.max(), true);
  if (const auto columns = columns_.value(); columns && series != nullptr) {
    const std::vector<SeriesColumn>& own = columns->at(number);
    const float step = own.empty() ? 1 : area.width() / static_cast<float>(own.size());
    draw_series(scene.theme, list, area, top, own, series->has_pending,
                [&](std::size_t x) { return area.left + step * static_cast<float>(x); });
  }
  const auto line_at = [&](double position, Colour colour) {
    const float x = std::floor(x_at(position));
    fill(list, {x, area.top, x + scene.px(1), area.bottom}, colour);
  };
  if (hovered_) line_at(*hovered_, with_alpha(scene.theme.text, 0x50));
  if (side.moment.event != 0) line_at(side.scale.position_of(side.time()), scene.theme.accent);
  label(scene, list, {area.left + scene.px(6), area.top + scene.px(2)}, name + "   " + side.title);
  list.PopClipRect();

  std::optional<Click> click;
  if (ImGui::IsItemHovered()) {
    const double here = range.begin + per_pixel * static_cast<double>(ImGui::GetIO().MousePos.x - area.left);
    next_hovered_ = here;
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left))
      click = {.side = number, .event = side.moment.document->events_until(side.scale.time_at(here))};
  }
  return click;
}

void CompareRows::draw_axis(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by) {
  const Area area = take_area("compare axis");
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const double length = range.end - range.begin;
  const auto tick = [&](double position, const std::string& what) {
    const float x = area.left + static_cast<float>((position - range.begin) / length) * area.width();
    fill(list, {std::floor(x), area.top, std::floor(x) + 1, area.top + scene.px(4)}, scene.theme.faint);
    tick_label(scene, list, {x, area.top}, area.right, what);
  };
  const float spacing = scene.px(120);
  if (by == AlignBy::time) {
    const auto ns = [](double position) { return Nanoseconds{static_cast<std::int64_t>(position)}; };
    const TimeAxis axis({ns(range.begin), std::max(ns(range.end), ns(range.begin) + Nanoseconds{1})}, area);
    for (const Nanoseconds at : axis.ticks(Nanoseconds{}, spacing))
      tick(static_cast<double>(at.count()), time_text(at, axis.tick_step(spacing)));
    return;
  }
  const double most = std::max(1.0, static_cast<double>(area.width() / spacing));
  const double step = std::max(1.0, std::ceil(length / most));
  // The part drawn after the last step is not a step.
  const double last = std::max(sides[0].scale.last_step(), sides[1].scale.last_step());
  for (double at = std::ceil(std::max(range.begin, 0.0) / step) * step; at < std::min(range.end, last); at += step) {
    const std::string number = std::to_string(static_cast<std::int64_t>(at) + 1);
    tick(at, "step " + number);
    note_item(scene, "compare/step " + number);
  }
  if (last >= range.begin && last < range.end) tick(last, "after the last step");
}

std::optional<CompareRows::Click> CompareRows::draw(Scene& scene, const CompareSides& sides, std::size_t reference,
                                                    AlignBy by, float height) {
  const Range range = range_of(scene.selection, sides, reference);
  request(scene, sides, range, by, ImGui::GetContentRegionAvail().x);
  std::uint64_t top = 1;
  if (const auto columns = columns_.value())
    for (const std::vector<SeriesColumn>& own : *columns) top = std::max(top, highest(own));
  top += top / 12;
  hovered_ = std::exchange(next_hovered_, std::nullopt);
  const float axis = scene.px(axis_height), row = std::max((height - axis) / 2, scene.px(8));
  std::optional<Click> click;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, scene.px(1)});
  for (std::size_t i = 0; i < sides.size(); ++i) {
    ImGui::BeginChild(i == 0 ? "compare A" : "compare B", {0, row});
    if (const auto clicked = draw_row(scene, sides, i, range, top)) click = clicked;
    ImGui::EndChild();
  }
  ImGui::BeginChild("compare axis", {0, axis});
  draw_axis(scene, sides, range, by);
  ImGui::EndChild();
  ImGui::PopStyleVar();
  return click;
}

}  // namespace memreel::viewer
