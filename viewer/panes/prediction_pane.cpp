// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/time_panes.h"

#include <algorithm>

#include "formats/model/quantity.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

Colour reserved_colour(const Scene& scene) { return scene.theme.hue(1); }

/// Maps values and bytes to pixels.
class Axes {
 public:
  Axes(const GrowthChart& chart, const Area& area) : area_(area) {
    for (const GrowthChart::Recorded& p : chart.recorded) include(p.at, std::max(p.live, p.reserved));
    for (const GrowthChart::Predicted& p : chart.predicted) include(p.at, std::max(p.live, p.high));
    // A limit far above the curves would leave them no height.
    shows_limit = chart.limit && chart.limit->count <= 3 * top_;
    if (shows_limit) top_ = std::max(top_, chart.limit->count);
    top_ += top_ / 20 + 1;
  }

  ImVec2 at(std::uint64_t value, Bytes bytes) const { return {x(value), y(bytes)}; }
  float x(std::uint64_t value) const {
    const double share = static_cast<double>(value) / static_cast<double>(std::max<std::uint64_t>(furthest_, 1));
    return area_.left + static_cast<float>(share * 0.97) * area_.width();
  }
  float y(Bytes bytes) const { return y_of(area_, bytes.count, top_); }
  std::uint64_t top() const { return top_; }

  bool shows_limit = false;

 private:
  void include(std::uint64_t value, Bytes bytes) {
    furthest_ = std::max(furthest_, value);
    top_ = std::max(top_, bytes.count);
  }

  Area area_;
  std::uint64_t furthest_ = 0, top_ = 0;
};

void draw_curves(Scene& scene, ImDrawList& list, const GrowthChart& chart, const Axes& axes) {
  const auto& points = chart.predicted;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto &a = points[i - 1], &b = points[i];
    list.AddQuadFilled(axes.at(a.at, a.high), axes.at(b.at, b.high), axes.at(b.at, b.low), axes.at(a.at, a.low),
                       with_alpha(reserved_colour(scene), 0x40));
  }
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto &a = points[i - 1], &b = points[i];
    list.AddLine(axes.at(a.at, a.reserved), axes.at(b.at, b.reserved), reserved_colour(scene), scene.px(2));
    list.AddLine(axes.at(a.at, a.live), axes.at(b.at, b.live), scene.theme.live, scene.px(2));
  }
}

/// A point, with its position for tests and a tooltip.
void draw_point(Scene& scene, ImDrawList& list, ImVec2 at, Colour colour, const std::string& name,
                const std::string& what) {
  const float radius = scene.px(4);
  list.AddCircleFilled(at, radius, colour);
  const Area place{at.x - radius, at.y - radius, at.x + radius, at.y + radius};
  note_place(scene, name, place);
  if (ImGui::IsWindowHovered() && place.contains(ImGui::GetMousePos())) ImGui::SetTooltip("%s", what.c_str());
}

void draw_points(Scene& scene, ImDrawList& list, const GrowthChart& chart, const Axes& axes) {
  const auto what = [&](std::uint64_t at, Bytes bytes, const char* kind) {
    return chart.parameter + " " + text_of(at) + ": " + text_of(bytes) + " " + kind;
  };
  const auto name = [](const char* kind, std::uint64_t at) {
    return "prediction/" + std::string(kind) + "/" + std::to_string(at);
  };
  for (const GrowthChart::Predicted& p : chart.predicted) {
    if (!p.asked) continue;
    draw_point(scene, list, axes.at(p.at, p.reserved), reserved_colour(scene), name("reserved", p.at),
               what(p.at, p.reserved, "reserved, predicted"));
    draw_point(scene, list, axes.at(p.at, p.live), scene.theme.live, name("live", p.at),
               what(p.at, p.live, "live, predicted"));
  }
  for (const GrowthChart::Recorded& p : chart.recorded) {
    draw_point(scene, list, axes.at(p.at, p.reserved), scene.theme.text, name("recorded reserved", p.at),
               what(p.at, p.reserved, "reserved, recorded"));
    draw_point(scene, list, axes.at(p.at, p.live), scene.theme.text, name("recorded live", p.at),
               what(p.at, p.live, "live, recorded"));
  }
}

void draw_axes(Scene& scene, ImDrawList& list, const GrowthChart& chart, const Axes& axes, const Area& area) {
  const std::uint64_t tick = byte_tick(axes.top(), 5);
  for (std::uint64_t bytes = tick; bytes < axes.top(); bytes += tick) {
    const float y = axes.y(Bytes{bytes});
    fill(list, {area.left, y, area.right, y + 1}, scene.theme.line);
    label(scene, list, {area.left + scene.px(4), y}, tick_text(bytes));
  }
  std::vector<std::uint64_t> values;
  for (const GrowthChart::Recorded& p : chart.recorded) values.push_back(p.at);
  for (const GrowthChart::Predicted& p : chart.predicted)
    if (p.asked) values.push_back(p.at);
  std::ranges::sort(values);
  float free_from = area.left + ImGui::CalcTextSize(chart.parameter.c_str()).x + scene.px(10);
  text(list, {area.left, area.bottom + scene.px(3)}, scene.theme.faint, chart.parameter);
  for (const std::uint64_t value : values) {
    const std::string digits = text_of(value);
    const float half = ImGui::CalcTextSize(digits.c_str()).x / 2;
    if (axes.x(value) - half < free_from) continue;
    text(list, {axes.x(value), area.bottom + scene.px(3)}, scene.theme.faint, digits, 0.5F);
    free_from = axes.x(value) + half + scene.px(8);
  }
}

}  // namespace

void draw_prediction(Scene& scene, const PredictionView* view) {
  if (view == nullptr || !view->problem.empty()) {
    const Area area = take_area("prediction");
    if (view == nullptr)
      explain(scene, area, "Reading the recordings and predicting");
    else
      explain(scene, area, "No prediction: " + view->problem);
    return;
  }
  const GrowthChart& chart = view->chart;
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("predicted, not recorded:");
  legend_entry(scene, "reserved, and its range", reserved_colour(scene), "");
  legend_entry(scene, "live", scene.theme.live, "");
  legend_entry(scene, "recorded", scene.theme.text, "");
  const Area all = take_area("prediction");
  const Area area{all.left, all.top, all.right, all.bottom - ImGui::GetTextLineHeight() - scene.px(6)};
  if (area.height() < scene.px(20)) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, area, scene.theme.ground);
  const Axes axes(chart, area);
  draw_axes(scene, list, chart, axes, area);
  draw_curves(scene, list, chart, axes);
  if (axes.shows_limit) {
    const float y = axes.y(*chart.limit);
    fill(list, {area.left, y, area.right, y + scene.px(1.5)}, scene.theme.alarm);
    note_place(scene, "prediction/limit", {area.left, y, area.right, y + scene.px(1.5)});
    text(list, {area.left + scene.px(80), y + scene.px(3)}, scene.theme.alarm,
         chart.limit_name + ", " + text_of(*chart.limit));
  }
  draw_points(scene, list, chart, axes);
}

}  // namespace memreel::viewer
