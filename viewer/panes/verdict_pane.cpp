// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/instant_panes.h"

#include <algorithm>

#include "formats/model/quantity.h"

namespace memreel::viewer {
namespace {

constexpr const char* copy_text = "copy PYTORCH_CUDA_ALLOC_CONF";
constexpr const char* short_copy_text = "copy this";
constexpr const char* shortest_copy_text = "copy";
constexpr double copied_seconds = 2;

/// The width of what precedes an item's text.
float lead(const Scene& scene, const VerdictItem& item) {
  return (item.category ? scene.px(15) : 0) +
         (item.topic.empty() ? 0 : ImGui::CalcTextSize(item.topic.c_str()).x + scene.px(8));
}

/// Of an item that says `what`, wrapped within `width`.
ImVec2 size_of(const Scene& scene, const VerdictItem& item, const std::string& what, float width) {
  const float before = lead(scene, item);
  const ImVec2 text = ImGui::CalcTextSize(what.c_str(), nullptr, false, std::max(width - before, 1.0F));
  return {std::min(before + text.x + 1, width), text.y};
}

/// A topic and its text, with its colour before it; a click leads to its moment.
void draw_item(Scene& scene, const VerdictItem& item, const std::string& what, const Area& area,
               VerdictAction& action) {
  const Theme& theme = scene.theme;
  ImGui::SetCursorScreenPos({area.left, area.top});
  const bool clicked = ImGui::InvisibleButton(item.name.c_str(), {area.width(), area.height()});
  const bool hovered = ImGui::IsItemHovered();
  note_item(scene, "verdict/" + item.name);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (item.category) {
    const float size = scene.px(9), top = area.top + (ImGui::GetTextLineHeight() - size) / 2;
    list.AddRectFilled({area.left, top}, {area.left + size, top + size}, theme.category(*item.category), scene.px(2));
  }
  if (!item.topic.empty())
    text(list, {area.left + (item.category ? scene.px(15) : 0), area.top}, theme.faint, item.topic);
  const float left = area.left + lead(scene, item);
  list.AddText(ImGui::GetFont(), ImGui::GetFontSize(), {left, area.top}, item.alarm ? theme.alarm_ink : theme.text,
               what.c_str(), nullptr, area.right - left + 1);
  if (hovered) {
    fill(list, {area.left, area.bottom, area.right, area.bottom + scene.px(1)}, theme.accent);
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
    if (item.category) scene.selection.hover(*item.category);
    if (what != item.text) ImGui::SetTooltip("%s", item.text.c_str());
  }
  if (clicked) action.go = item.to;
}

ImVec2 button_size(const Scene& scene, const char* says) {
  return {ImGui::CalcTextSize(says).x + 2 * ImGui::GetStyle().FramePadding.x, ImGui::GetTextLineHeight() + scene.px(2)};
}

/// Its size stays the same while what it says changes.
void button_in(Scene& scene, const Area& area, std::string_view place, std::string says = {}, std::string hint = {}) {
  ImGui::SetCursorScreenPos({area.left, area.top});
  command_button(scene, place,
                 {.says = std::move(says), .hint = std::move(hint), .size = {area.width(), area.height()}});
}

}  // namespace

float VerdictPane::strip_height(const Scene& scene) const {
  constexpr float most_share = 0.5F;  // of the window; the rest is scrolled to
  const float least = ImGui::GetTextLineHeight() + scene.px(16);
  return std::clamp(height_ + scene.px(16), least, std::max(least, ImGui::GetIO().DisplaySize.y * most_share));
}

bool VerdictPane::update(Scene& scene, Verdicts& verdicts) {
  const auto findings = verdicts.ask(scene);
  const auto say = [&](const std::string& what) {
    ImGui::TextDisabled("%s", fitting(what, ImGui::GetContentRegionAvail().x).c_str());
    height_ = ImGui::GetTextLineHeight();
    return false;
  };
  if (!findings) {
    if (Verdicts::is_too_long(scene)) return say("This trace is too long to judge here. Run: memreel report TRACE");
    if (!scene.doc().complete) return say("Judged once the whole trace is read.");
    verdicts.draw_progress(scene, "verdict");
    height_ = ImGui::GetTextLineHeight();
    return false;
  }
  if (of_ != findings || version_ != scene.doc().event_count()) {
    of_ = findings;
    version_ = scene.doc().event_count();
    strip_ = verdict_strip(scene.doc(), *findings);
    copied_at_.reset();
  }
  return true;
}

void VerdictPane::draw_headline(Scene& scene, Flow& flow, VerdictAction& action) {
  const Theme& theme = scene.theme;
  const bool alarming = strip_.headline.alarm;
  std::string word(name_of(strip_.decides));
  word[0] = static_cast<char>(word[0] - 'a' + 'A');
  const ImVec2 size = ImGui::CalcTextSize(word.c_str());
  const Area chip = flow.next({size.x + scene.px(12), size.y});
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled({chip.left, chip.top - scene.px(1)}, {chip.right, chip.bottom + scene.px(1)},
                     alarming ? theme.alarm : mix(theme.panel, theme.accent, 0.35), scene.px(3));
  text(list, {chip.left + scene.px(6), chip.top}, alarming ? ink_on(theme.alarm) : theme.text, word);
  VerdictItem item = strip_.headline;
  item.topic.clear();  // the preceding word says so
  draw_item(scene, item, item.text, flow.next(size_of(scene, item, item.text, flow.width()), scene.px(10)), action);
  flow.new_line();
}

void VerdictPane::draw_holders(Scene& scene, Flow& flow, bool beside, VerdictAction& action) {
  const float gap = scene.px(20);
  const ImVec2 size = ImGui::CalcTextSize(strip_.held_text.c_str());
  float taken = size.x;
  for (const VerdictItem& item : strip_.holders) taken += size_of(scene, item, item.text, flow.width()).x + gap;
  const bool brief = beside && taken > flow.width();
  const Area area = flow.next(size);
  text(*ImGui::GetWindowDrawList(), {area.left, area.top}, scene.theme.faint, strip_.held_text);
  for (const VerdictItem& item : strip_.holders) {
    if (!beside) flow.new_line();
    const std::string& what = brief ? item.brief : item.text;
    draw_item(scene, item, what, flow.next(size_of(scene, item, what, flow.width()), gap), action);
  }
  flow.new_line();
}

void VerdictPane::draw_offer(Scene& scene, Flow& flow, bool low, VerdictAction& action) {
  const SettingOffer& offer = *strip_.offer;
  const ImVec2 overlay = low || offer.policy.empty() ? ImVec2{0, 0} : button_size(scene, "overlay");
  const float gap = scene.px(8);
  const std::string& brief = offer.item.brief.empty() ? offer.item.text : offer.item.brief;
  const float least = size_of(scene, offer.item, brief, flow.width()).x + overlay.x + 2 * gap;
  const char* const says = low                                                      ? shortest_copy_text
                           : least + button_size(scene, copy_text).x > flow.width() ? short_copy_text
                                                                                    : copy_text;
  const ImVec2 copy = offer.export_line.empty() ? ImVec2{0, 0} : button_size(scene, low ? "copied" : says);
  const float with_buttons = size_of(scene, offer.item, offer.item.text, flow.width()).x + copy.x + overlay.x + 2 * gap;
  const std::string& what =
      with_buttons > flow.width() && !offer.item.brief.empty() ? offer.item.brief : offer.item.text;
  draw_item(scene, offer.item, what, flow.next(size_of(scene, offer.item, what, flow.width())), action);
  if (copy.x > 0) {
    const bool copied = copied_at_ && ImGui::GetTime() - *copied_at_ < copied_seconds;
    button_in(scene, flow.next(copy, gap), "verdict/copy", copied ? "copied" : says, offer.export_line);
  }
  if (overlay.x > 0) button_in(scene, flow.next(overlay, gap), "verdict/overlay");
}

void VerdictPane::copy_setting() {
  if (!strip_.offer || strip_.offer->export_line.empty()) return;
  ImGui::SetClipboardText(strip_.offer->export_line.c_str());
  copied_at_ = ImGui::GetTime();
}

bool VerdictPane::is_low(const Scene& scene, float width) const {
  constexpr float most_share = 0.28F;  // of the window
  const float line = ImGui::GetTextLineHeight() + scene.px(6);
  float height = strip_.holders.empty() ? 0 : line;
  const auto add = [&](const VerdictItem& item) { height += size_of(scene, item, item.text, width).y + scene.px(6); };
  add(strip_.headline);
  for (const VerdictItem& item : strip_.others) add(item);
  if (strip_.offer) add(strip_.offer->item);
  if (strip_.no_offer) add(*strip_.no_offer);
  return height > most_share * ImGui::GetIO().DisplaySize.y;
}

VerdictAction VerdictPane::draw_items(Scene& scene, Verdicts& verdicts, bool beside) {
  VerdictAction action;
  const ImVec2 from = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "verdict", {from.x, from.y, from.x + size.x, from.y + size.y});
  if (!update(scene, verdicts)) return action;
  Flow flow(from, std::max(size.x, 1.0F), scene.px(beside ? 6 : 10));
  draw_headline(scene, flow, action);
  const bool brief = beside && is_low(scene, flow.width());
  if (!strip_.holders.empty() && !brief) draw_holders(scene, flow, beside, action);
  for (const VerdictItem& item : strip_.others) {
    if (brief) break;
    draw_item(scene, item, item.text, flow.next(size_of(scene, item, item.text, flow.width())), action);
    flow.new_line();
  }
  if (const auto& none = strip_.no_offer)
    draw_item(scene, *none, none->text, flow.next(size_of(scene, *none, none->text, flow.width())), action);
  if (strip_.offer) draw_offer(scene, flow, brief, action);
  if (brief) {
    button_in(scene, flow.next(button_size(scene, "all"), scene.px(8)), "verdict/all");
  }
  height_ = flow.height();
  return action;
}

VerdictAction VerdictPane::draw_strip(Scene& scene, Verdicts& verdicts) { return draw_items(scene, verdicts, true); }

VerdictAction VerdictPane::draw(Scene& scene, Verdicts& verdicts) { return draw_items(scene, verdicts, false); }

}  // namespace memreel::viewer
