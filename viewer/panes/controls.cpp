// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/controls.h"

#include <algorithm>

#include "viewer/panes/draw.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {
namespace {

constexpr const char* no_command = "there is no such command";

/// What is at a place; without a command it can't be pressed.
ButtonWords control_at(const Scene& scene, std::string_view place) {
  if (auto control = scene.controls.at(place)) return *std::move(control);
  return {.label = std::string(place), .name = {}, .hint = {}, .why_not = no_command};
}

/// Draws what `widget` does with its name; returns what it returned.
template <class Widget>
bool draw_control(Scene& scene, std::string_view place, const ButtonWords& control, const std::string& says,
                  const Widget& widget) {
  const bool able = control.why_not.empty();
  const std::string name = (says.empty() ? control.label : says) + "###" + std::string(place);
  if (!able) ImGui::BeginDisabled();
  const bool pressed = widget(name.c_str());
  if (!able) ImGui::EndDisabled();
  note_item(scene, std::string(place));
  scene.controls.add({.place = std::string(place),
                      .label = says.empty() ? control.label : says,
                      .is_command = control.why_not != no_command,
                      .can_be_pressed = able});
  return pressed;
}

void tell(const Scene& scene, const ButtonWords& control, const std::string& what) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) return;
  if (control.why_not.empty() && what.empty()) return;
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(scene.px(520));
  ImGui::TextUnformatted(control.why_not.empty() ? what.c_str() : ("Not now: " + control.why_not).c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

template <class Widget>
bool with_edge(const Scene& scene, const Widget& widget) {
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, std::max(1.0F, scene.px(1)));
  const bool pressed = widget();
  ImGui::PopStyleVar();
  return pressed;
}

}  // namespace

bool push_button(Scene& scene, std::string_view place, const ButtonLook& look) {
  const ButtonWords control = control_at(scene, place);
  const bool has_size = look.size.x > 0 || look.size.y > 0;
  const bool pressed = draw_control(scene, place, control, look.says, [&](const char* name) {
    if (!has_size && !look.is_large) return ImGui::SmallButton(name);
    if (!has_size) return ImGui::Button(name);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {0, 0});
    const bool is_pressed = ImGui::Button(name, look.size);
    ImGui::PopStyleVar();
    return is_pressed;
  });
  tell(scene, control, !look.hint.empty() ? look.hint : control.hint.empty() ? control.name : control.hint);
  return pressed;
}

void command_button(Scene& scene, std::string_view place, const ButtonLook& look) {
  if (push_button(scene, place, look)) scene.controls.press(place);
}

bool radio_button(Scene& scene, std::string_view place, bool chosen) {
  const ButtonWords control = control_at(scene, place);
  const bool pressed = draw_control(scene, place, control, {}, [&](const char* name) {
    return with_edge(scene, [&] { return ImGui::RadioButton(name, chosen); });
  });
  tell(scene, control, control.hint);
  return pressed;
}

bool check_box(Scene& scene, std::string_view place, bool& checked) {
  const ButtonWords control = control_at(scene, place);
  const bool pressed = draw_control(scene, place, control, {}, [&](const char* name) {
    return with_edge(scene, [&] { return ImGui::Checkbox(name, &checked); });
  });
  tell(scene, control, control.hint);
  return pressed;
}

float button_width(const Scene& scene, std::string_view place, std::string_view says) {
  const std::string label = says.empty() ? control_at(scene, place).label : std::string(says);
  return ImGui::CalcTextSize(label.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
}

}  // namespace memreel::viewer
