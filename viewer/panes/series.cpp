#include "viewer/panes/series.h"

#include <algorithm>
#include <array>

#include "formats/model/quantity.h"

namespace memreel::viewer {

float y_of(const Area& area, std::uint64_t bytes, std::uint64_t top) {
  return area.bottom -
         static_cast<float>(static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(top, 1))) *
             area.height();
}

void draw_series(const Theme& theme, ImDrawList& list, const Area& area, std::uint64_t top,
                 const std::vector<SeriesColumn>& columns, bool has_pending, const ColumnPlace& x_of) {
  struct Part {
    Metric metric;
    Colour colour;
  };
  const std::array<Part, 3> parts{
      {{Metric::reserved, theme.reserved}, {Metric::held, theme.held}, {Metric::live, theme.live}}};
  for (const Part& part : parts) {
    // Without pending frees, held equals live.
    if (part.metric == Metric::held && !has_pending) continue;
    const auto y = [&](const Metrics& metrics) { return y_of(area, value_of(metrics, part.metric), top); };
    // The colour is solid up to the minimum and paler from there to the maximum.
    fill_columns(list, columns.size(), x_of, part.colour, [&](std::size_t x) {
      return std::pair{y(columns[x].extent.min), area.bottom};
    });
    fill_columns(list, columns.size(), x_of, with_alpha(part.colour, part.metric == Metric::held ? 0x60 : 0xA0),
                 [&](std::size_t x) {
                   return std::pair{y(columns[x].extent.max), y(columns[x].extent.min)};
                 });
  }
}

std::string tick_text(std::uint64_t bytes) {
  std::string label = text_of(Bytes{bytes});
  if (const std::size_t zeros = label.find(".00"); zeros != std::string::npos) label.erase(zeros, 3);
  return label;
}

std::uint64_t highest(const std::vector<SeriesColumn>& columns) {
  std::uint64_t top = 0;
  for (const SeriesColumn& c : columns)
    top = std::max({top, value_of(c.extent.max, Metric::reserved), value_of(c.extent.max, Metric::held)});
  return top;
}

void label(const Scene& scene, ImDrawList& list, ImVec2 at, const std::string& what) {
  const ImVec2 size = ImGui::CalcTextSize(what.c_str());
  list.AddRectFilled({at.x - scene.px(3), at.y}, {at.x + size.x + scene.px(3), at.y + size.y},
                     with_alpha(scene.theme.panel, 0xB8), scene.px(2));
  text(list, at, with_alpha(scene.theme.text, 0xD0), what);
}

}  // namespace memreel::viewer
