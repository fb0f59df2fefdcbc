// The labels of the allocation map: bytes and addresses upwards, time to the right, large allocations.
#include <algorithm>
#include <cmath>
#include <string>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/map_pane.h"
#include "viewer/panes/series.h"

namespace memreel::viewer {

float MapPane::y_of(const Area& area, std::uint64_t offset) const {
  const double share =
      static_cast<double>(offset) / static_cast<double>(std::max<std::uint64_t>(shown_->scale.total(), 1));
  return area.top + static_cast<float>((high_ - share) / (high_ - low_)) * area.height();
}

void MapPane::draw_axes(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) const {
  const std::uint64_t total = shown_->scale.total();
  if (total == 0) return;
  const float line = ImGui::GetTextLineHeight();
  const auto at_share = [&](double share) { return static_cast<std::uint64_t>(share * static_cast<double>(total)); };
  // Bytes of the address ranges that the heap had, counted from the lowest.
  const std::uint64_t first = at_share(low_), last = at_share(high_);
  const int most = std::clamp(static_cast<int>(area.height() / (3 * line)), 1, 6);
  const std::uint64_t step = byte_tick(std::max<std::uint64_t>(last - first, 1), most);
  for (std::uint64_t tick = (first / step + 1) * step; tick < last; tick += step) {
    const float y = std::floor(y_of(area, tick));
    if (y < area.top + line / 2) break;
    fill(list, {area.left, y, area.left + scene.px(6), y + 1}, scene.theme.faint);
    label(scene, list, {area.left + scene.px(10), y - line / 2}, tick_text(tick));
    note_place(scene, "map/tick", {area.left, y - line / 2, area.left + scene.px(60), y + line / 2});
  }
  // A line where an address range begins after omitted addresses; with its first address if there is room.
  const bool has_room = area.height() > 16 * line, says_time = !scene.places.contains("marks");
  float free_above = area.bottom - (says_time ? 2 : 1) * line;
  for (const AddressScale::Range& range : shown_->scale.ranges()) {
    const float y = std::floor(y_of(area, range.offset));
    if (y < area.top || y > area.bottom + 1) continue;
    if (range.offset != 0) fill(list, {area.left, y, area.right, y + 1}, with_alpha(scene.theme.text, 0x30));
    if (!has_room || y - line > free_above || y - line < area.top) continue;
    const std::string address = address_text(range.begin);
    const float left = area.right - ImGui::CalcTextSize(address.c_str()).x - scene.px(8);
    label(scene, list, {left, y - line - scene.px(1)}, address);
    note_place(scene, "map/address", {left, y - line, area.right, y});
    free_above = y - 2 * line;
  }
  // The marks have the same axis; if they are not on screen, the map labels time itself.
  if (!says_time) return;
  for (const TimeAxis::Tick& tick : axis.labelled_ticks(scene.doc().first_time(), scene.px(120))) {
    fill(list, {std::floor(tick.x), area.bottom - scene.px(5), std::floor(tick.x) + 1, area.bottom}, scene.theme.text);
    label(scene, list, {std::floor(tick.x) + scene.px(4), area.bottom - line - scene.px(2)}, tick.label);
    note_place(scene, "map/time", {tick.x, area.bottom - line, tick.x + scene.px(60), area.bottom});
  }
}

/// The picture may be for another view than the one on screen: label only what has room in this one.
void MapPane::draw_labels(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const float line = ImGui::GetTextLineHeight(), least = scene.px(60);
  const ColourOf colour = with_others_pale(scene, colours_of(scene, scene.findings));
  int noted = 0;
  for (const std::uint32_t id : shown_->labelled) {
    if (id >= scene.doc().allocation_count()) continue;
    const std::optional<Area> box = box_of(scene, axis, area, id);
    if (!box) continue;
    const Area seen{std::max(box->left, area.left), std::max(box->top, area.top), std::min(box->right, area.right),
                    std::min(box->bottom, area.bottom)};
    if (seen.width() < least || seen.height() < line) continue;
    const std::string size = text_of(scene.doc().size_of(id));
    const std::string shown = fitting(size + "  " + stack_labels_.of_block(scene, id), seen.width() - scene.px(8));
    // Beside the ticks of the left edge, not over them.
    const float left = std::max(seen.left + scene.px(4), area.left + scene.px(64));
    if (left + ImGui::CalcTextSize(shown.c_str()).x > seen.right) continue;
    text(list, {left, seen.top + std::max((std::min(seen.height(), 2 * line) - line) / 2, 0.0F)}, ink_on(colour(id)),
         shown);
    constexpr int most_noted = 8;  // for tests
    if (noted < most_noted) note_place(scene, "map/label " + std::to_string(noted++), seen);
  }
}

}  // namespace memreel::viewer
