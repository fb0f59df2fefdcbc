#include "viewer/app/tour.h"

#include <algorithm>
#include <array>

#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

struct Stop {
  const char* pane;
  const char* title;
  const char* text;
};

constexpr std::array<Stop, 6> tour{{
    {"verdict", "The verdict",
     "What decides, who holds the peak, what leaks, and the setting that helps. Click an item to see where."},
    {"timeline", "The timeline",
     "Memory reserved from the driver, and the live part of it. The wheel zooms at the pointer, "
     "W A S D zoom and pan, a click or drag sets the cursor, Shift + drag marks a range."},
    {"map", "Every allocation",
     "Addresses go up, time to the right. Point at a rectangle to see who allocated it; the same "
     "allocation lights up in every pane. Click to select it."},
    {"heap", "The heap at the cursor",
     "Segments in address order, a lane for each pool and stream; dark means free. The "
     "largest free block is outlined. Press . and , to go from event to event."},
    {"inspector", "Who, when, why", "The lifetime of the selection, and its stack with your own line first."},
    {"bottom", "Lists and replays",
     "Allocations, stacks, a flame graph, segments, failures; and Policies: what another "
     "allocator would have reserved. Press ? for all keys."},
}};

Area area_of(ImVec4 place) { return {place.x, place.y, place.x + place.z, place.y + place.w}; }

}  // namespace

void Tour::draw(Scene& scene, bool has_room, bool& seen) {
  if (scene.doc().empty() || !scene.doc().complete) return;  // its subject is not there yet
  if (!is_on()) {
    if (seen) return;
    begin();
  }
  seen = true;
  if (stop_ >= static_cast<int>(tour.size()) || !has_room) return end();
  const Stop& stop = tour.at(static_cast<std::size_t>(stop_));
  const auto place = scene.places.find(stop.pane);
  if (place == scene.places.end()) {
    ++stop_;  // it is not on screen
    return;
  }
  const Area area = area_of(place->second);
  outline(*ImGui::GetForegroundDrawList(), area, scene.theme.accent, scene.px(2));
  // Beside its subject, so that neither hides the other.
  const float width = scene.px(360), height = scene.px(130), gap = scene.px(8);
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImVec2 at{std::clamp((area.left + area.right - width) / 2, 0.0F, std::max(display.x - width, 0.0F)), 0};
  if (area.bottom + gap + height <= display.y) {
    at.y = area.bottom + gap;
  } else if (area.top - gap - height >= 0) {
    at.y = area.top - gap - height;
  } else {
    at = {std::max(area.left - gap - width, 0.0F), (area.top + area.bottom - height) / 2};
  }
  ImGui::SetNextWindowPos(at);
  ImGui::SetNextWindowSize({width, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, scene.px(1));
  ImGui::PushStyleColor(ImGuiCol_Border, scene.theme.accent);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, mix(scene.theme.panel, scene.theme.accent, 0.12));
  ImGui::Begin("##tour", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleColor(2);
  ImGui::PopStyleVar();
  const ImVec2 from = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  note_place(scene, "tour", {from.x, from.y, from.x + size.x, from.y + size.y});
  ImGui::TextUnformatted(stop.title);
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::TextWrapped("%s", stop.text);
  ImGui::PopStyleColor();
  ImGui::Spacing();
  const bool is_last = stop_ + 1 == static_cast<int>(tour.size());
  if (ImGui::Button(is_last ? "Done" : "Next")) ++stop_;
  note_item(scene, "tour/next");
  ImGui::SameLine();
  if (ImGui::Button("Skip")) stop_ = static_cast<int>(tour.size());
  ImGui::End();
}

}  // namespace memreel::viewer
