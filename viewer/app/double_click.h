// Double-clicks however slow frames are, for the window and the page.
#pragma once

#include <imgui.h>

namespace memreel::viewer {

/// ImGui::NewFrame(), told how often the left button went down since the last frame.
///
/// ImGui takes the frame in which it hears of a press for the press's time, and before 1.87 two presses between two
/// frames for one. Where frames are slow, as when a distant display is drawn in software, double-clicks would be lost.
inline void new_frame(int left_presses) {
  constexpr float longest_between_clicks = 0.3F;  // seconds, ImGui's default
  ImGuiIO& io = ImGui::GetIO();
  io.MouseDoubleClickTime = longest_between_clicks + 2 * io.DeltaTime;
  ImGui::NewFrame();
  if (left_presses < 2 || !io.MouseClicked[ImGuiMouseButton_Left]) return;
  io.MouseDoubleClicked[ImGuiMouseButton_Left] = true;
  io.MouseClickedCount[ImGuiMouseButton_Left] = 2;
  io.MouseClickedLastCount[ImGuiMouseButton_Left] = 2;
}

}  // namespace memreel::viewer
