// The lanes below the timeline's plot, each with its own axis: fragmentation, and the device's free memory.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "formats/model/quantity.h"
#include "viewer/panes/series.h"
#include "viewer/panes/timeline_pane.h"

namespace memreel::viewer {
namespace {

/// A time series below the plot, with its own axis from 0 to `top`.
struct Lane {
  const char* name = "";
  std::string title, top_text;
  Colour colour{};
  std::uint64_t top = 0;
  std::vector<FreeColumn> columns;

  std::uint64_t most() const {
    std::uint64_t most = 0;
    for (const FreeColumn& column : columns) most = std::max(most, column.most);
    return most;
  }
};

void draw_lane(Scene& scene, ImDrawList& list, const Area& area, const Lane& lane,
               const std::function<float(std::size_t)>& x_of) {
  fill(list, {area.left, area.top, area.right, area.top + 1}, scene.theme.line);
  list.PushClipRect(area.min(), area.max(), true);
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
  list.PopClipRect();
  label(scene, list, {area.left + scene.px(6), area.top + scene.px(3)}, lane.title + "  0 \u2013 " + lane.top_text);
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
    Lane lane{.name = "fragmentation", .title = "fragmentation", .colour = fragmentation_colour(scene.theme)};
    for (const SeriesColumn& column : contents.series)
      lane.columns.push_back({.least = value_of(column.extent.min, Metric::fragmentation),
                              .most = value_of(column.extent.max, Metric::fragmentation),
                              .known = true});
    // Round shares, up to 100 %.
    constexpr std::array<std::uint64_t, 5> tops{50'000, 100'000, 250'000, 500'000, 1'000'000};
    lane.top =
        *std::ranges::find_if(tops.begin(), tops.end() - 1, [&](std::uint64_t top) { return lane.most() <= top; });
    lane.top_text = std::to_string(lane.top / 10'000) + " %";
    wanted.push_back(std::move(lane));
  }
  if (sampled != nullptr) {
    Lane lane{.name = "device free", .title = free_name(scene.tables(), *sampled), .colour = free_colour(scene.theme)};
    lane.columns = contents.free;
    const std::uint64_t step = byte_tick(std::max<std::uint64_t>(lane.most(), 1), 2);
    lane.top = (lane.most() + step - 1) / step * step;
    lane.top_text = tick_text(lane.top);
    wanted.push_back(std::move(lane));
  }
  wanted.resize(std::min(wanted.size(), lanes));
  for (const Lane& lane : wanted) {
    ImGui::BeginChild(lane.name, {0, scene.px(lane_height)});
    const Area area = take_area(lane.name);
    note_place(scene, lane.name, area);
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const TimeAxis axis(scene.selection.view, area, scene.selection.axis);
    draw_lane(scene, list, area, lane, [&](std::size_t column) { return plot_.x_of(column); });
    draw_instants(scene, list, axis, area);
    navigate(scene, axis, area);
    ImGui::EndChild();
  }
}

}  // namespace memreel::viewer
