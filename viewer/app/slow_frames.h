// What the hands do between two slow frames, for the window and the page.
#pragma once

#include <GLFW/glfw3.h>
#include <imgui.h>

#include <iterator>
#include <span>
#include <vector>

#include "viewer/app/window.h"

namespace memreel::viewer {

/// ImGui::NewFrame(), told the keys that went down since the last frame and how often the left button did.
///
/// ImGui takes the frame in which it hears of a press for the press's time. Before 1.87 it looks only at what is down
/// when a frame begins: two clicks between two frames are one, and a key that was pressed and released between them is
/// none, nor are Ctrl and the like of a shortcut. Where frames are slow, as when a distant display is drawn in
/// software, both happen.
inline void new_frame(int left_presses, [[maybe_unused]] std::span<const KeyPress> keys) {
  constexpr float longest_between_clicks = 0.3F;  // seconds, ImGui's default
  ImGuiIO& io = ImGui::GetIO();
  io.MouseDoubleClickTime = longest_between_clicks + 2 * io.DeltaTime;
#if IMGUI_VERSION_NUM < 18700
  std::vector<bool*> released;
  int modifiers = 0;
  for (const KeyPress& press : keys)
    if (press.key >= 0 && press.key < static_cast<int>(std::size(io.KeysDown)) && !io.KeysDown[press.key]) {
      *released.emplace_back(&io.KeysDown[press.key]) = true;
      modifiers |= press.modifiers;
    }
  const auto is_down = [&](int modifier, int left, int right) {
    return (modifiers & modifier) != 0 || io.KeysDown[left] || io.KeysDown[right];
  };
  io.KeyCtrl = is_down(GLFW_MOD_CONTROL, GLFW_KEY_LEFT_CONTROL, GLFW_KEY_RIGHT_CONTROL);
  io.KeyShift = is_down(GLFW_MOD_SHIFT, GLFW_KEY_LEFT_SHIFT, GLFW_KEY_RIGHT_SHIFT);
  io.KeyAlt = is_down(GLFW_MOD_ALT, GLFW_KEY_LEFT_ALT, GLFW_KEY_RIGHT_ALT);
  io.KeySuper = is_down(GLFW_MOD_SUPER, GLFW_KEY_LEFT_SUPER, GLFW_KEY_RIGHT_SUPER);
  ImGui::NewFrame();
  for (bool* down : released) *down = false;
#else
  ImGui::NewFrame();
#endif
  if (left_presses < 2 || !io.MouseClicked[ImGuiMouseButton_Left]) return;
  io.MouseDoubleClicked[ImGuiMouseButton_Left] = true;
  io.MouseClickedCount[ImGuiMouseButton_Left] = 2;
  io.MouseClickedLastCount[ImGuiMouseButton_Left] = 2;
}

}  // namespace memreel::viewer
