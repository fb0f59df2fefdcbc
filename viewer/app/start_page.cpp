// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/start_page.h"

#include <algorithm>
#include <array>

#include "formats/model/files.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/instant_panes.h"

namespace memreel::viewer {
namespace {

/// Offers to open a file, a recent one, or the sample.
std::string draw_choices(Scene& scene, std::span<const std::string> recent) {
  std::string chosen;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(10), scene.px(7)});
  const float left = std::max((ImGui::GetContentRegionAvail().x - scene.px(620)) / 2, scene.px(16));
  const auto line = [&] { ImGui::SetCursorPosX(left); };
  line();
  command_button(scene, "start/open", {.is_large = true});
  if (!sample_trace().empty()) {
    ImGui::SameLine();
    command_button(scene, "start/sample", {.is_large = true});
    ImGui::SameLine();
    command_button(scene, "start/tour", {.is_large = true});
  }
  ImGui::Dummy({0, scene.px(6)});
  if (!recent.empty()) {
    line();
    ImGui::TextDisabled("recently opened");
  }
  for (std::size_t i = 0; i < recent.size(); ++i) {
    line();
    ImGui::PushID(static_cast<int>(i));
    const std::string shown = fitting(printable(recent[i]), scene.px(620));
    if (ImGui::Selectable(shown.c_str(), false, 0, {scene.px(620), 0})) chosen = recent[i];
    ImGui::PopID();
    note_item(scene, "start/recent " + std::to_string(i + 1));
  }
  ImGui::Dummy({0, scene.px(6)});
  line();
  ImGui::TextDisabled("Record any program with:   memreel record -- python train.py");
  ImGui::PopStyleVar();
  return chosen;
}

}  // namespace

Welcome welcome_to(const Source* source, const Document& document) {
  if (source == nullptr)
    return {"Drop a trace here, or run: memreel view FILE", "A .reel file, or any file that memreel import reads"};
  const SourceStatus status = source->status();
  const std::string file = source->path().filename().string();
  if (status.stage == Stage::failed && status.error)
    return {file + " can't be shown: " + status.error->what,
            status.error->remedy.empty() ? status.error->message() : status.error->remedy};
  if (status.stage != Stage::complete)
    return {(status.stage == Stage::importing ? "Importing " : "Reading ") + file + "  " +
                std::to_string(static_cast<int>(status.progress * 100)) + " %",
            {},
            true};
  const std::vector<std::string> lacking = document.shortcomings();
  if (lacking.empty())
    return {file + " is a trace without events.",
            status.followed ? "It has no footer, so it may still be growing: new events will appear here." : ""};
  const std::uint64_t lost = document.trace->read.missing_events;
  return {
      file + (lost != 0 ? " is damaged: all of its " + text_of(lost) + " events are lost." : " has no events left."),
      lacking.front()};
}

std::string draw_start_page(Scene& scene, const Welcome& welcome, std::span<const std::string> recent) {
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  const Area area{at.x, at.y, at.x + size.x, at.y + size.y};
  note_place(scene, "welcome", area);
  if (welcome.busy) {
    explain(scene, area, welcome.what, welcome.remedy);
    return {};
  }
  explain(scene, {area.left, area.top, area.right, area.top + size.y * 0.4F}, welcome.what, welcome.remedy);
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + size.y * 0.3F);
  return draw_choices(scene, recent);
}

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
     "Segments, a lane for each pool and stream; dark means free. Click a hole: what keeps it. The "
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
  if (push_button(scene, "tour/next", {.says = is_last ? "Done" : "", .is_large = true})) ++stop_;
  ImGui::SameLine();
  if (push_button(scene, "tour/skip", {.is_large = true})) stop_ = static_cast<int>(tour.size());
  ImGui::End();
}

}  // namespace memreel::viewer
