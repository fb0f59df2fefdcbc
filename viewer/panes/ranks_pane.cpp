#include "viewer/panes/ranks_pane.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "formats/model/quantity.h"

namespace memreel::viewer {
namespace {

/// One column for each pixel or two, with a height in proportion to `highest`.
void draw_series(ImDrawList& list, const Area& area, const std::vector<Bytes>& values, Bytes highest, Colour colour) {
  if (values.empty() || highest == 0_B) return;
  const float width = area.width() / static_cast<float>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto share = static_cast<float>(static_cast<double>(values[i].count) / static_cast<double>(highest.count));
    const float left = area.left + static_cast<float>(i) * width;
    fill(list, {left, area.bottom - std::min(share, 1.0F) * area.height(), left + width, area.bottom}, colour);
  }
}

void draw_rank(Scene& scene, const Area& cell, const std::string& name, const RankSeries* series, Bytes highest,
               bool shown, bool hovered) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float line = ImGui::GetTextLineHeight();
  const Area chart{cell.left, cell.top + line + scene.px(2), cell.right, cell.bottom};
  fill(list, chart, scene.theme.ground);
  const std::string peak = series == nullptr ? "" : series->problem.empty() ? text_of(series->peak_reserved) : "";
  text(list, {cell.right, cell.top}, scene.theme.faint, peak, 1);
  const float room = cell.width() - ImGui::CalcTextSize(peak.c_str()).x - scene.px(8);
  text(list, cell.min(), shown || hovered ? scene.theme.text : scene.theme.faint, fitting(name, room));
  if (series == nullptr || !series->problem.empty()) {
    text(list, {chart.left + scene.px(4), chart.top + scene.px(4)}, scene.theme.faint,
         fitting(series == nullptr ? "not read yet" : series->problem, chart.width() - scene.px(8)));
  } else {
    draw_series(list, chart, series->reserved, highest, scene.theme.reserved);
    draw_series(list, chart, series->allocated, highest, scene.theme.live);
  }
  if (shown || hovered) outline(list, chart, shown ? scene.theme.accent : scene.theme.faint, scene.px(shown ? 2 : 1));
}

}  // namespace

RankChoice draw_ranks(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown) {
  RankChoice choice;
  const std::string progress =
      ranks.complete() ? ""
                       : ", " + std::to_string(ranks.read()) + " of " + std::to_string(ranks.files().size()) + " read";
  ImGui::TextDisabled("each from beginning to end, on the same scale%s; click: show, right click: compare with it",
                      progress.c_str());
  ImGui::BeginChild("small multiples");
  const Bytes highest = ranks.highest();
  const float gap = scene.px(12), room = ImGui::GetContentRegionAvail().x - ImGui::GetStyle().ScrollbarSize;
  const auto across = static_cast<std::size_t>(std::max(1.0F, std::floor((room + gap) / (scene.px(190) + gap))));
  const float width = (room + gap) / static_cast<float>(across) - gap, height = scene.px(84);
  for (std::size_t i = 0; i < ranks.files().size(); ++i) {
    if (i % across != 0) ImGui::SameLine(0, gap);
    ImGui::PushID(static_cast<int>(i));
    ImGui::InvisibleButton("rank", {width, height},
                           ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
    ImGui::PopID();
    if (!ImGui::IsItemVisible()) continue;
    const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
    const auto series = ranks.series(i);
    const std::string name = ranks.name(i);
    note_item(scene, "rank/" + std::to_string(i));
    const bool is_shown = ranks.files()[i] == shown;
    draw_rank(scene, {from.x, from.y, to.x, to.y - scene.px(6)}, name, series.get(), highest, is_shown,
              ImGui::IsItemHovered());
    if (ImGui::IsItemHovered()) {
      ImGui::BeginTooltip();
      ImGui::TextUnformatted(ranks.files()[i].c_str());
      if (series && series->problem.empty())
        ImGui::TextDisabled("peak reserved %s, live %s", text_of(series->peak_reserved).c_str(),
                            text_of(series->peak_live).c_str());
      ImGui::EndTooltip();
    }
    if (ImGui::IsItemClicked(ImGuiMouseButton_Left)) choice.show = i;
    if (ImGui::IsItemClicked(ImGuiMouseButton_Right) && !is_shown) choice.compare = i;
  }
  ImGui::EndChild();
  return choice;
}

}  // namespace memreel::viewer
