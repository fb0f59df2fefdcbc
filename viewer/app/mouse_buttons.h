// SPDX-License-Identifier: Apache-2.0
// Presses and releases of mouse buttons, in the order in which they happened.
#pragma once

#include <imgui.h>

#include <array>
#include <cstddef>
#include <deque>

namespace memreel::viewer {

/// Hands out one change for each frame of ImGui, which before 1.87 only sees which buttons are down when a frame
/// begins: several changes between two frames would be one or none.
class MouseButtons {
 public:
  static constexpr std::size_t count = 5;

  /// `at`: where the pointer was. Buttons beyond `count` are ignored.
  void add(std::size_t button, bool down, ImVec2 at) {
    if (button < count) changes_.push_back({button, down, at});
  }
  /// Whether changes are left.
  bool pending() const { return !changes_.empty(); }
  /// Forgets all changes; no button is down.
  void clear() {
    changes_.clear();
    down_ = {};
  }
  /// Passes the next change, if there is one, to ImGui: before NewFrame().
  void apply_next(ImGuiIO& io) {
    if (pending()) {
      const Change next = changes_.front();
      changes_.pop_front();
      down_.at(next.button) = next.down;
      io.MousePos = next.at;
    }
    for (std::size_t button = 0; button < count; ++button) io.MouseDown[button] = down_.at(button);
  }

 private:
  struct Change {
    std::size_t button = 0;
    bool down = false;
    ImVec2 at{0, 0};
  };

  std::deque<Change> changes_;
  std::array<bool, count> down_{};
};

}  // namespace memreel::viewer
