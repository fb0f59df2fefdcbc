// SPDX-License-Identifier: Apache-2.0
#include "viewer/page/touch.h"

#include <algorithm>
#include <cmath>

namespace memreel::viewer {
namespace {

constexpr float slop = 10;             // units that a resting finger may move
constexpr double rest = 0.4;           // seconds
constexpr float units_a_notch = 60;    // three rows of a table
constexpr float zoom_a_notch = 0.75F;  // of navigate() (viewer/panes/draw.h)

float distance(ImVec2 a, ImVec2 b) { return std::hypot(a.x - b.x, a.y - b.y); }

}  // namespace

void Touch::release(MouseButtons& buttons) {
  if (gesture_ == Gesture::pan) buttons.add(ImGuiMouseButton_Right, false, last_);
  if (gesture_ == Gesture::mark) buttons.add(ImGuiMouseButton_Left, false, last_);
}

void Touch::decide(ImVec2 at, float unit, double now, MouseButtons& buttons) {
  if (distance(begun_, at) < slop * unit) return;
  if (now - since_ >= rest) {
    gesture_ = Gesture::mark;
    buttons.add(ImGuiMouseButton_Left, true, begun_);
  } else if (std::abs(at.x - begun_.x) > std::abs(at.y - begun_.y)) {
    gesture_ = Gesture::pan;
    buttons.add(ImGuiMouseButton_Right, true, begun_);
  } else {
    gesture_ = Gesture::wheel;
  }
}

Touch::Mouse Touch::follow(std::span<const ImVec2> fingers, float unit, double now, MouseButtons& buttons) {
  if (fingers.empty()) {
    release(buttons);
    if (gesture_ == Gesture::undecided) {
      buttons.add(ImGuiMouseButton_Left, true, begun_);
      buttons.add(ImGuiMouseButton_Left, false, begun_);
    }
    gesture_ = Gesture::none;
    return {.pointer = last_};
  }
  if (fingers.size() > 1) {
    release(buttons);
    const float apart = std::max(distance(fingers[0], fingers[1]), unit);
    const float before = gesture_ == Gesture::pinch ? apart_ : apart;
    gesture_ = Gesture::pinch;
    apart_ = apart;
    last_ = {(fingers[0].x + fingers[1].x) / 2, (fingers[0].y + fingers[1].y) / 2};
    return {.pointer = last_, .wheel = std::log(before / apart) / std::log(zoom_a_notch)};
  }
  const ImVec2 at = fingers.front();
  if (gesture_ == Gesture::pinch) gesture_ = Gesture::over;  // the other finger goes a moment later
  if (gesture_ == Gesture::none) {
    gesture_ = Gesture::undecided;
    begun_ = last_ = at;
    since_ = now;
  }
  if (gesture_ == Gesture::undecided) decide(at, unit, now, buttons);
  const float moved = at.y - last_.y;
  if (gesture_ != Gesture::undecided) last_ = at;
  if (gesture_ == Gesture::wheel) return {.pointer = begun_, .wheel = moved / (units_a_notch * unit)};
  return {.pointer = last_, .shift = gesture_ == Gesture::mark};
}

}  // namespace memreel::viewer
