// The part of the timeline for which a flight recorder kept only sums.
#include <algorithm>
#include <string>

#include "formats/model/quantity.h"
#include "viewer/panes/series.h"
#include "viewer/panes/timeline_pane.h"

namespace memreel::viewer {
namespace {

std::string folded_words(const Document& document) {
  return "\u2190 " + text_of(document.losses.folded_events) + " events summed up";
}

void tell_folded(const Document& document) {
  const double interval = std::chrono::duration<double>(document.folded->interval).count();
  ImGui::BeginTooltip();
  ImGui::TextUnformatted(("A flight recorder keeps sums of older events, by stack" +
                          (document.folded->empty() ? "" : " and every " + text_of_seconds(interval)) + ".")
                             .c_str());
  ImGui::TextUnformatted("The pale curve shows live bytes according to these sums.");
  ImGui::TextUnformatted("Only allocations still live at the dashed line are shown.");
  if (!document.folded->empty()) ImGui::TextDisabled("Stacks and Flame show the sums under \u201Csummed up\u201D.");
  ImGui::EndTooltip();
}

}  // namespace

const std::vector<FoldedPoint>& TimelinePane::folded_series_of(Scene& scene) {
  static const std::vector<FoldedPoint> nothing;
  if (scene.doc().folded->empty()) return nothing;
  const FoldedKey key{scene.doc().folded, scene.selection.heap};
  folded_.request(
      key,
      [document = scene.document, key](const Progress&) { return std::optional(folded_series(*document, key.heap)); },
      false);
  if (!folded_.is_current()) scene.busy = true;
  return folded_.value() && folded_.key()->heap == key.heap ? *folded_.value() : nothing;
}

void TimelinePane::draw_folded_series(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area,
                                      std::uint64_t top) {
  const std::vector<FoldedPoint>& series = folded_series_of(scene);
  const Colour colour = folded_colour(scene.theme);
  for (std::size_t i = 1; i < series.size(); ++i) {
    const float left = std::max(axis.x_of(series[i - 1].time), area.left);
    const float right = std::min(axis.x_of(series[i].time), area.right);
    if (left < right) fill(list, {left, y_of(area, series[i].live.count, top), right, area.bottom}, colour);
  }
}

void TimelinePane::draw_folded_end(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const Document& document = scene.doc();
  folded_is_told_ = false;
  if (document.losses.folded_events == 0) return;
  const float x = std::floor(axis.x_of(document.losses.folded_until));
  if (x < area.left) return;
  for (float y = area.top; x < area.right && y < area.bottom; y += scene.px(7))
    fill(list, {x, y, x + scene.px(1), y + scene.px(4)}, scene.theme.faint);
  const std::string words = folded_words(document);
  const float width = ImGui::CalcTextSize(words.c_str()).x + scene.px(10);
  const float left = std::max(std::min(x, area.right) - width, area.left + scene.px(90));
  const Area said{left, area.top + scene.px(3), left + width, area.top + scene.px(3) + ImGui::GetTextLineHeight()};
  label(scene, list, said.min(), words);
  note_place(scene, "timeline/folded", said);
  if (!ImGui::IsItemHovered() || !said.contains(ImGui::GetIO().MousePos)) return;
  folded_is_told_ = true;
  tell_folded(document);
}

}  // namespace memreel::viewer
