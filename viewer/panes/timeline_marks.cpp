// SPDX-License-Identifier: Apache-2.0
// The program's marks below the timeline's plot: ranges, nested and numbered, failures, emptied caches.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "formats/model/quantity.h"
#include "viewer/model/findings.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/time_panes.h"

namespace memreel::viewer {
namespace {

constexpr double band_height = 13;  // units of length

/// As many depths of ranges as exist and fit.
std::uint32_t depths_of(const Scene& scene) {
  constexpr std::uint32_t most = 4;
  return std::clamp(scene.doc().columns.span_depths, 1U, most);
}

}  // namespace

float TimelinePane::marks_height(const Scene& scene) {
  return scene.px(17) + scene.px(band_height) * static_cast<float>(depths_of(scene));
}

void TimelinePane::draw_bands(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const Document& document = scene.doc();
  const auto [first, end] = scene.selection.viewed(document);
  const BandLimits limits{.narrowest = static_cast<double>(scene.px(10)),
                          .apart = static_cast<double>(scene.px(2)),
                          .depths = depths_of(scene)};
  bands_ = mark_bands(
      document, first, end, [&](Nanoseconds time) { return axis.exact_x_of(time); },
      [&](double x) { return axis.time_at(static_cast<float>(x)); }, limits);
  const MarkBand* wanted = nullptr;
  int noted = 0;
  for (const MarkBand& band : bands_) {
    const float top = area.top + scene.px(1) + scene.px(band_height) * static_cast<float>(band.depth);
    const Area box{static_cast<float>(std::max(band.left, static_cast<double>(area.left))), top,
                   static_cast<float>(std::min(band.right, static_cast<double>(area.right))),
                   top + scene.px(band_height - 1)};
    if (box.right < area.left || box.left > area.right) continue;
    const double strength = (band.count > 1 ? 0.4 : 0.25) / (1 + 0.5 * band.depth);
    list.AddRectFilled(box.min(), {std::max(box.right - 1, box.left + 1), box.bottom},
                       mix(scene.theme.line, scene.theme.accent, strength));
    constexpr int most_noted = 32;  // for tests
    if (noted < most_noted) note_place(scene, "band/" + std::to_string(noted++), box);
    const bool hovered = ImGui::IsItemHovered() && box.contains(ImGui::GetIO().MousePos);
    const bool has_room = box.width() > scene.px(30);
    if (!has_room && !hovered) continue;
    const std::string title = title_of(scene.tables(), band);
    if (has_room)
      text(list, {box.left + scene.px(4), box.top - scene.px(1)}, scene.theme.text,
           fitting(title, box.width() - scene.px(8)));
    if (!hovered) continue;
    told_band_ = title;
    ImGui::SetTooltip("%s\n%s\ndouble click: zoom to it", title.c_str(),
                      time_text(band.end - band.begin, (band.end - band.begin) / 1000).c_str());
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) wanted = &band;
  }
  if (wanted == nullptr) return;
  scene.selection.look_at(document, {wanted->begin, wanted->end});
  scene.selection.remember();
}

/// Instant marks: a line for each pixel that has any, with the name where ranges leave room for it.
void TimelinePane::draw_instant_marks(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const Document& document = scene.doc();
  const ColumnView<std::uint32_t>& rows = document.columns.instant;
  const auto [first, end] = scene.selection.viewed(document);
  const auto mark_at = [&](std::uint32_t row) { return document.other(rows[row]); };
  const auto x_of = [&](std::uint32_t row) { return std::floor(axis.x_of(document.time(mark_at(row).at))); };
  const auto count = static_cast<std::uint32_t>(rows.size());
  const bool named = document.columns.span.size() == 0;
  for (std::uint32_t row = document.rows_before(rows, first); row < count && mark_at(row).at < end;) {
    const float x = x_of(row), top = area.top + scene.px(1), bottom = area.bottom - scene.px(16);
    fill(list, {x, top, x + scene.px(1), bottom}, scene.theme.accent);
    const std::uint32_t next =
        std::max(row + 1, document.rows_before(rows, document.events_until(axis.time_at(x + scene.px(1)))));
    const Mark& mark = scene.tables()[MarkId{static_cast<std::uint32_t>(mark_at(row).event.value)}];
    const std::string name = scene.tables()[mark.name];
    const std::string called =
        next - row == 1 ? name : name + " and " + text_of(std::uint64_t{next - row - 1}) + " more";
    const float room = (next < count ? std::min(x_of(next), area.right) : area.right) - x - scene.px(8);
    if (named && room > ImGui::CalcTextSize(called.c_str()).x)
      text(list, {x + scene.px(4), top - scene.px(1)}, scene.theme.text, called);
    const Area sign{x - scene.px(3), top, x + scene.px(4), bottom};
    if (row == document.rows_before(rows, first)) note_place(scene, "first mark", sign);
    if (ImGui::IsItemHovered() && sign.contains(ImGui::GetIO().MousePos)) {
      told_band_ = called;
      ImGui::SetTooltip("%s", called.c_str());
    }
    row = next;
  }
}

/// A flag above the labels of the axis marks a failed request and says why it failed; a click on it leads there.
void TimelinePane::draw_failures(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const Document& document = scene.doc();
  const ColumnView<std::uint32_t>& rows = document.columns.failure;
  const auto count = static_cast<std::uint32_t>(rows.size());
  const auto [first, end] = scene.selection.viewed(document);
  const float bottom = area.bottom - ImGui::GetTextLineHeight();
  std::uint32_t row = document.rows_before(rows, first);
  for (bool is_first = true; row < count && document.columns.other[rows[row]].at < end; is_first = false) {
    const OtherEvent failure = document.other(rows[row]);
    const float x = std::floor(axis.x_of(document.time(failure.at)));
    const float top = area.top + scene.px(1);
    list.AddTriangleFilled({x, top}, {x + scene.px(9), top + scene.px(4)}, {x, top + scene.px(8)}, scene.theme.alarm);
    fill(list, {x, top, x + scene.px(1.5), bottom}, scene.theme.alarm);
    const Area flag{x - scene.px(1), area.top, x + scene.px(9), area.top + scene.px(10)};
    if (is_first) note_place(scene, "first flag", flag);
    row = std::max(row + 1, document.rows_before(rows, document.events_until(axis.time_at(x + scene.px(3)))));
    if (!ImGui::IsItemHovered() || !flag.contains(ImGui::GetIO().MousePos)) continue;
    const OutOfMemory* const oom = scene.findings ? scene.findings->ooms.of_event(failure.at) : nullptr;
    ImGui::BeginTooltip();
    ImGui::PushTextWrapPos(scene.px(520));
    ImGui::TextUnformatted((text_of(failure.event.size) + " refused").c_str());
    if (oom != nullptr) ImGui::TextUnformatted(explanation(*oom).c_str());
    ImGui::TextDisabled("%s", stack_label(scene.tables(), failure.event.stack).c_str());
    ImGui::PopTextWrapPos();
    ImGui::EndTooltip();
    if (!ImGui::IsMouseReleased(ImGuiMouseButton_Left)) continue;
    scene.selection.heap = document.heap_of(failure.event.origin);
    scene.selection.cursor = failure.at + 1;
    scene.selection.select(failure.event.stack);
    scene.selection.remember();
    flag_clicked_ = true;
  }
}

/// A tick for each `empty_cache`, above the labels of the axis; its name while the pointer is on it.
void TimelinePane::draw_emptied(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const Document& document = scene.doc();
  const ColumnView<std::uint32_t>& rows = document.columns.emptied;
  const auto count = static_cast<std::uint32_t>(rows.size());
  const auto [first, end] = scene.selection.viewed(document);
  const float bottom = area.bottom - ImGui::GetTextLineHeight(), top = bottom - scene.px(7);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  // At most one tick per pixel, regardless of how many are in view.
  for (std::uint32_t row = document.rows_before(rows, first);
       row < count && document.columns.other[rows[row]].at < end;) {
    const float x = std::floor(axis.x_of(document.time(document.columns.other[rows[row]].at)));
    const std::uint32_t next =
        std::max(row + 1, document.rows_before(rows, document.events_until(axis.time_at(x + 1))));
    const Area tick{x, top, x + 1, bottom};
    fill(list, tick, mix(scene.theme.faint, scene.theme.held, 0.6));
    if (row == 0) note_place(scene, "emptied", tick);
    const Area around{x - scene.px(3), top - scene.px(2), x + scene.px(4), bottom};
    if (ImGui::IsItemHovered() && around.contains(mouse)) {
      emptied_told_ = next - row;
      ImGui::SetTooltip(emptied_told_ == 1 ? "empty_cache" : "empty_cache, %s times",
                        text_of(std::uint64_t{emptied_told_}).c_str());
    }
    row = next;
  }
}

void TimelinePane::draw_marks(Scene& scene) {
  emptied_told_ = 0;
  const Area area = take_area("marks");
  note_place(scene, "marks", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, area, scene.theme.ground);
  const Document& document = scene.doc();
  if (document.empty()) return;
  const TimeAxis axis(scene.selection.view, area, scene.selection.axis);
  draw_emptied(scene, list, axis, area);
  for (const TimeAxis::Tick& tick : axis.labelled_ticks(document.first_time(), scene.px(120))) {
    const float x = std::floor(tick.x);
    fill(list, {x, area.top, x + 1, area.top + scene.px(4)}, scene.theme.faint);
    tick_label(scene, list, {x, area.bottom - ImGui::GetTextLineHeight()}, area.right, tick.label);
  }
  list.PushClipRect(area.min(), area.max(), true);
  told_band_.clear();
  draw_bands(scene, list, axis, area);
  draw_instant_marks(scene, list, axis, area);
  flag_clicked_ = false;
  draw_failures(scene, list, axis, area);
  draw_instants(scene, list, axis, area);
  list.PopClipRect();
  navigate(scene, axis, area, !flag_clicked_);
}

// The lanes below the timeline's plot, each with its own axis: fragmentation, and the device's free memory.

namespace {

/// A time series below the plot, with its own axis from 0 to `top`.
struct Lane {
  const char* name = "";
  std::string title, top_text;
  Colour colour{};
  std::uint64_t top = 0;
  std::span<const FreeColumn> columns;

  std::uint64_t most() const {
    std::uint64_t most = 0;
    for (const FreeColumn& column : columns) most = std::max(most, column.most);
    return most;
  }
};

void draw_lane_columns(Scene& scene, ImDrawList& list, const Area& area, const Lane& lane,
                       const std::function<float(std::size_t)>& x_of) {
  const Area plot{area.left, area.top + scene.px(3), area.right, area.bottom};
  const auto y = [&](std::uint64_t value) { return y_of(plot, value, lane.top); };
  fill_columns(list, lane.columns.size(), x_of, with_alpha(lane.colour, 0x50), [&](std::size_t x) {
    const FreeColumn& column = lane.columns[x];
    return std::pair{column.known ? y(column.least) : plot.bottom, plot.bottom};
  });
  // At least a line, so that 0 and steady values are visible.
  fill_columns(list, lane.columns.size(), x_of, lane.colour, [&](std::size_t x) {
    const FreeColumn& column = lane.columns[x];
    const float top = std::min(y(column.most), plot.bottom - scene.px(1.2));
    return column.known ? std::pair{top, std::max(y(column.least), std::round(top) + scene.px(1.2))}
                        : std::pair{plot.bottom, plot.bottom};
  });
}

}  // namespace

Colour fragmentation_colour(const Theme& theme) { return theme.rounding; }
Colour free_colour(const Theme& theme) { return theme.faint; }
const char* free_name(const Tables& tables, const HeapSeries& sampled) {
  const bool is_driver = tables[sampled.heap].level == Level::driver;
  return is_driver ? "device free" : "free below the limit";
}

void TimelinePane::draw_lanes(Scene& scene, std::size_t lanes) {
  const HeapSeries& series = *scene.series();
  const HeapSeries* const sampled = sampled_series(scene.doc(), series.heap);
  const Contents& contents = *plot_.contents;
  std::vector<Lane> wanted;
  if (series.has_segments) {
    Lane lane{.name = "fragmentation",
              .title = "fragmentation",
              .top_text = {},
              .colour = fragmentation_colour(scene.theme),
              .columns = contents.fragmentation};
    // Round shares, up to 100 %.
    constexpr std::array<std::uint64_t, 5> tops{50'000, 100'000, 250'000, 500'000, 1'000'000};
    lane.top =
        *std::ranges::find_if(tops.begin(), tops.end() - 1, [&](std::uint64_t top) { return lane.most() <= top; });
    lane.top_text = std::to_string(lane.top / 10'000) + " %";
    wanted.push_back(std::move(lane));
  }
  if (sampled != nullptr) {
    Lane lane{.name = "device free",
              .title = free_name(scene.tables(), *sampled),
              .top_text = {},
              .colour = free_colour(scene.theme),
              .columns = contents.free};
    const std::uint64_t step = byte_tick(std::max<std::uint64_t>(lane.most(), 1), 2);
    lane.top = (lane.most() + step - 1) / step * step;
    lane.top_text = tick_text(lane.top);
    wanted.push_back(std::move(lane));
  }
  wanted.resize(std::min(wanted.size(), lanes));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Lane& lane = wanted[i];
    ImGui::BeginChild(lane.name, {0, scene.px(lane_height)});
    const Area area = take_area(lane.name);
    note_place(scene, lane.name, area);
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const TimeAxis axis(scene.selection.view, area, scene.selection.axis);
    fill(list, {area.left, area.top, area.right, area.top + 1}, scene.theme.line);
    const Look look{.contents = plot_.contents,
                    .groups = nullptr,
                    .left = plot_.left,
                    .step = plot_.step,
                    .area = area,
                    .top = lane.top,
                    .scale = scene.scale,
                    .lit = {},
                    .dark = scene.theme.dark};
    list.PushClipRect(area.min(), area.max(), true);
    lane_columns_.at(i).draw(list, look, [&] {
      draw_lane_columns(scene, list, area, lane, [&](std::size_t column) { return plot_.x_of(column); });
    });
    list.PopClipRect();
    label(scene, list, {area.left + scene.px(6), area.top + scene.px(3)}, lane.title + "  0 \u2013 " + lane.top_text);
    draw_instants(scene, list, axis, area);
    navigate(scene, axis, area);
    ImGui::EndChild();
  }
}

}  // namespace memreel::viewer
