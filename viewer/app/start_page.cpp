#include "viewer/app/start_page.h"

#include <algorithm>
#include <filesystem>

#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/sample_trace.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/inspector_pane.h"

namespace memreel::viewer {
namespace {

/// Offers to open a file, a recent one, or the sample.
StartChoice draw_choices(Scene& scene, std::span<const std::string> recent) {
  StartChoice choice;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(10), scene.px(7)});
  const float left = std::max((ImGui::GetContentRegionAvail().x - scene.px(620)) / 2, scene.px(16));
  const auto line = [&] { ImGui::SetCursorPosX(left); };
  line();
  choice.ask = ImGui::Button("Open\u2026");
  note_item(scene, "start/open");
  if (!sample_trace().empty()) {
    ImGui::SameLine();
    choice.tour = ImGui::Button("Tour of a sample");
    note_item(scene, "start/tour");
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
    if (ImGui::Selectable(shown.c_str(), false, 0, {scene.px(620), 0})) choice.file = recent[i];
    ImGui::PopID();
    note_item(scene, "start/recent " + std::to_string(i + 1));
  }
  ImGui::Dummy({0, scene.px(6)});
  line();
  ImGui::TextDisabled("Record any program with:   memreel record -- python train.py");
  ImGui::PopStyleVar();
  return choice;
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
  const std::vector<std::string> lacking = shortcomings(document);
  if (lacking.empty())
    return {file + " is a trace without events.",
            status.followed ? "It has no footer, so it may still be growing: new events will appear here." : ""};
  const std::uint64_t lost = document.read.missing_events;
  return {
      file + (lost != 0 ? " is damaged: all of its " + text_of(lost) + " events are lost." : " has no events left."),
      lacking.front()};
}

StartChoice draw_start_page(Scene& scene, const Welcome& welcome, std::span<const std::string> recent) {
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

}  // namespace memreel::viewer
