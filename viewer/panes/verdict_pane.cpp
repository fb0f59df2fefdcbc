// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/verdict_pane.h"

#include <algorithm>

#include "formats/model/quantity.h"

namespace memreel::viewer {
namespace {

constexpr int strip_lines = 3;

float line_height(const Scene& scene) { return ImGui::GetTextLineHeight() + scene.px(6); }

/// The rest of the line, less `reserved`.
float room(float reserved = 0) { return std::max(ImGui::GetContentRegionAvail().x - reserved, 1.0F); }

/// A topic and its text, on the current line, with its colour before it; a click leads to its moment.
void draw_item(Scene& scene, const VerdictItem& item, float width, VerdictAction& action) {
  const Theme& theme = scene.theme;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float swatch = item.category ? scene.px(15) : 0;
  const float topic = item.topic.empty() ? 0 : ImGui::CalcTextSize(item.topic.c_str()).x + scene.px(8);
  const std::string shown = fitting(item.text, std::max(width - swatch - topic, 1.0F));
  const float taken = std::min(swatch + topic + ImGui::CalcTextSize(shown.c_str()).x, width);
  const bool clicked = ImGui::InvisibleButton(item.name.c_str(), {std::max(taken, 1.0F), ImGui::GetTextLineHeight()});
  const bool hovered = ImGui::IsItemHovered();
  note_item(scene, "verdict/" + item.name);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  float x = at.x;
  if (item.category) {
    const float size = scene.px(9), drop = (ImGui::GetTextLineHeight() - size) / 2;
    list.AddRectFilled({x, at.y + drop}, {x + size, at.y + drop + size}, theme.category(*item.category), scene.px(2));
    x += swatch;
  }
  if (topic != 0) text(list, {x, at.y}, theme.faint, item.topic);
  x += topic;
  text(list, {x, at.y}, item.alarm ? theme.alarm : theme.text, shown);
  if (hovered) {
    const float below = at.y + ImGui::GetTextLineHeight();
    fill(list, {x, below, at.x + taken, below + scene.px(1)}, theme.accent);
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
    if (item.category) scene.selection.hover(*item.category);
    if (shown != item.text) ImGui::SetTooltip("%s", item.text.c_str());
  }
  if (clicked) action.go = item.to;
}

/// Continues on the same line.
void beside(const Scene& scene) { ImGui::SameLine(0, scene.px(26)); }

}  // namespace

float VerdictPane::strip_height(const Scene& scene) { return strip_lines * line_height(scene) + scene.px(10); }

bool VerdictPane::update(Scene& scene, Verdicts& verdicts) {
  const auto findings = verdicts.ask(scene);
  const auto say = [&](const std::string& what) {
    ImGui::TextDisabled("%s", fitting(what, room()).c_str());
    return false;
  };
  if (!findings) {
    if (Verdicts::is_too_long(scene)) return say("This trace is too long to judge here. Run: memreel report TRACE");
    if (!scene.doc().complete) return say("Judged once the whole trace is read.");
    verdicts.draw_progress(scene, "verdict");
    return false;
  }
  if (!findings->problem.empty()) return say("Not judged: " + findings->problem);
  if (of_ != findings || version_ != scene.doc().event_count()) {
    of_ = findings;
    version_ = scene.doc().event_count();
    strip_ = verdict_strip(scene.doc(), *findings);
    copied_ = false;
  }
  return true;
}

void VerdictPane::draw_headline(Scene& scene, VerdictAction& action) {
  const Theme& theme = scene.theme;
  const bool alarming = strip_.headline.alarm;
  std::string word(name_of(strip_.decides));
  word[0] = static_cast<char>(word[0] - 'a' + 'A');
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::CalcTextSize(word.c_str());
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled({at.x, at.y - scene.px(1)}, {at.x + size.x + scene.px(12), at.y + size.y + scene.px(1)},
                     alarming ? theme.alarm : mix(theme.panel, theme.accent, 0.35), scene.px(3));
  text(list, {at.x + scene.px(6), at.y}, alarming ? rgb(0xFFFFFF) : theme.text, word);
  ImGui::Dummy({size.x + scene.px(12), size.y});
  ImGui::SameLine(0, scene.px(10));
  VerdictItem item = strip_.headline;
  item.topic.clear();  // the preceding word says so
  draw_item(scene, item, room(), action);
}

void VerdictPane::draw_holders(Scene& scene, VerdictAction& action) {
  const std::string total = text_of(strip_.held) + " live at the peak:";
  ImGui::TextDisabled("%s", total.c_str());
  for (std::size_t i = 0; i < strip_.holders.size(); ++i) {
    ImGui::SameLine(0, scene.px(i == 0 ? 10 : 22));
    if (room() < scene.px(60)) break;
    // The first may take half of the line, so that the others get a word too.
    const float share = room() / static_cast<float>(strip_.holders.size() - i);
    const float wanted = ImGui::CalcTextSize(strip_.holders[i].text.c_str()).x + scene.px(16);
    draw_item(scene, strip_.holders[i], std::min(wanted, std::max(share, room() * 0.5F)), action);
  }
}

void VerdictPane::draw_offer(Scene& scene, VerdictAction& action) {
  if (strip_.no_offer) draw_item(scene, *strip_.no_offer, room(), action);
  if (!strip_.offer) return;
  const SettingOffer& offer = *strip_.offer;
  const char* const copy = copied_ ? "copied" : "copy PYTORCH_CUDA_ALLOC_CONF";
  const float frame = 2 * ImGui::GetStyle().FramePadding.x + scene.px(8);
  float buttons = ImGui::CalcTextSize("overlay").x + frame;
  if (!offer.export_line.empty()) buttons += ImGui::CalcTextSize(copy).x + frame;
  draw_item(scene, offer.item, room(buttons), action);
  if (!offer.export_line.empty()) {
    ImGui::SameLine(0, scene.px(8));
    if (ImGui::SmallButton(copy)) {
      ImGui::SetClipboardText(offer.export_line.c_str());
      copied_ = true;
    }
    note_item(scene, "verdict/copy");
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", offer.export_line.c_str());
  }
  if (offer.policy.empty()) return;
  ImGui::SameLine(0, scene.px(8));
  if (ImGui::SmallButton("overlay")) action.overlay = offer.policy;
  note_item(scene, "verdict/overlay");
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Overlay what it would have reserved on the timeline");
}

VerdictAction VerdictPane::draw_strip(Scene& scene, Verdicts& verdicts) {
  VerdictAction action;
  const ImVec2 from = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "verdict", {from.x, from.y, from.x + size.x, from.y + size.y});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(8), scene.px(6)});
  if (update(scene, verdicts)) {
    draw_headline(scene, action);
    if (!strip_.holders.empty()) draw_holders(scene, action);
    // The setting comes last: text that does not fit is cut, and its buttons are at the end.
    for (const VerdictItem& item : strip_.others) {
      draw_item(scene, item, room() * 0.4F, action);
      beside(scene);
    }
    draw_offer(scene, action);
  }
  ImGui::PopStyleVar();
  return action;
}

VerdictAction VerdictPane::draw(Scene& scene, Verdicts& verdicts) {
  VerdictAction action;
  const ImVec2 from = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "verdict", {from.x, from.y, from.x + size.x, from.y + size.y});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(8), scene.px(10)});
  if (update(scene, verdicts)) {
    draw_headline(scene, action);
    if (!strip_.holders.empty()) ImGui::TextDisabled("%s live at the peak:", text_of(strip_.held).c_str());
    for (const VerdictItem& item : strip_.holders) {
      ImGui::Dummy({scene.px(16), 0});
      ImGui::SameLine();
      draw_item(scene, item, room(), action);
    }
    for (const VerdictItem& item : strip_.others) draw_item(scene, item, room(), action);
    draw_offer(scene, action);
  }
  ImGui::PopStyleVar();
  return action;
}

}  // namespace memreel::viewer
