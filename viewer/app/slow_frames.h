// Input between two slow frames, for the window and the page.
#pragma once

#include <GLFW/glfw3.h>
#include <imgui.h>

#include <iterator>
#include <span>
#include <vector>

#include "viewer/app/window.h"

namespace memreel::viewer {

/// ImGui::NewFrame(), given the keys pressed since the last frame and the number of left button presses.
///
/// ImGui takes the time of the frame for the time of a press. Before 1.87 it only polls what is down when a frame
/// begins: two clicks between two frames count as one, and a key pressed and released between them is lost, as is a
/// modifier such as Ctrl. All of this happens when frames are slow, as with software rendering on a remote display.
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
