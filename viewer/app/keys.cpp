// SPDX-License-Identifier: Apache-2.0
// Keys: for the control that has the focus, else for commands, else for the timeline.
#include <GLFW/glfw3.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "viewer/app/viewer.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

std::optional<FocusKey> focus_key(const KeyPress& press) {
  constexpr int relevant = GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SHIFT | GLFW_MOD_SUPER;
  const int with = press.modifiers & relevant;
  const bool is_enter = press.key == GLFW_KEY_ENTER || press.key == GLFW_KEY_KP_ENTER;
  if (press.key == GLFW_KEY_TAB && with == GLFW_MOD_SHIFT) return FocusKey::previous_part;
  if (press.key == GLFW_KEY_F10 && with == GLFW_MOD_SHIFT) return FocusKey::menu;
  if (is_enter && with == GLFW_MOD_CONTROL) return FocusKey::open;
  if (with != 0) return std::nullopt;
  switch (press.key) {
    case GLFW_KEY_TAB:
      return FocusKey::next_part;
    case GLFW_KEY_UP:
      return FocusKey::up;
    case GLFW_KEY_DOWN:
      return FocusKey::down;
    case GLFW_KEY_LEFT:
      return FocusKey::left;
    case GLFW_KEY_RIGHT:
      return FocusKey::right;
    case GLFW_KEY_PAGE_UP:
      return FocusKey::page_up;
    case GLFW_KEY_PAGE_DOWN:
      return FocusKey::page_down;
    case GLFW_KEY_HOME:
      return FocusKey::home;
    case GLFW_KEY_END:
      return FocusKey::end;
    case GLFW_KEY_ENTER:
    case GLFW_KEY_KP_ENTER:
      return FocusKey::press;
    case GLFW_KEY_SPACE:
      return FocusKey::space;
    case GLFW_KEY_MENU:
      return FocusKey::menu;
    case GLFW_KEY_ESCAPE:
      return FocusKey::leave;
    default:
      return std::nullopt;
  }
}

}  // namespace

/// Whether the focus took the key.
bool Viewer::move_focus(const KeyPress& press) {
  const auto key = focus_key(press);
  if (!key || commands_.palette_is_open() || commands_.help_is_open()) return false;
  const bool changes_part = key == FocusKey::next_part || key == FocusKey::previous_part;
  if (is_typing()) {
    if (!changes_part) return false;
    focus_.leave_field();
    return focus_.press(*key);
  }
  const bool enters = *key == FocusKey::up || *key == FocusKey::down;
  if (enters && shows_job() && !focus_.is_on() && focus_.enter("rank/")) return true;
  if (focus_.press(*key)) return true;
  if (tour_.is_on() && *key == FocusKey::press) {
    focus_.act_on("tour/next");
    return true;
  }
  return false;
}

void Viewer::handle_keys(double seconds) {
  const bool had_focus = focus_.is_on();
  std::vector<KeyPress> others;
  for (const KeyPress& press : window_.keys())
    if (!move_focus(press)) others.push_back(press);
  commands_.handle(others, window_.characters(), open_dialog_.is_open());
  if (const std::string missing = focus_.take_missing(); !missing.empty())
    notice_ = "There is no \u201C" + label_of(missing) + "\u201D here now";
  if (is_typing() || document_->empty() || shows_job()) return;
  const bool takes_arrows = had_focus || focus_.is_on() || open_dialog_.is_open();
  const auto held = [&](int key, int arrow) {
    return window_.is_held_alone(key) || (!takes_arrows && window_.is_held_alone(arrow));
  };
  const Nanoseconds anchor = selection_.hovered_time.value_or(selection_.view.begin + selection_.view.length() / 2);
  // A key that is held zooms five times in a second, and moves one and a half screens.
  const double t = std::min(seconds, 0.1);
  if (held(GLFW_KEY_W, GLFW_KEY_W)) selection_.zoom(*document_, std::pow(5.0, -t * 2), anchor);
  if (held(GLFW_KEY_S, GLFW_KEY_S)) selection_.zoom(*document_, std::pow(5.0, t * 2), anchor);
  if (held(GLFW_KEY_A, GLFW_KEY_LEFT)) selection_.pan(*document_, -1.5 * t);
  if (held(GLFW_KEY_D, GLFW_KEY_RIGHT)) selection_.pan(*document_, 1.5 * t);
}

}  // namespace memreel::viewer
