// SPDX-License-Identifier: Apache-2.0
// What the window and the page need for their frames: a clock, which frames change the picture, and mouse buttons.
#pragma once

#include <imgui.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

namespace memreel::viewer {

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The vertices and commands of the picture on the screen. Most frames repeat them, and drawing them again costs a
/// software renderer twenty times what it costs to compare them.
class ShownPicture {
 public:
  /// Whether `data` draws another picture than the one before, which it then replaces. Textures are compared by name:
  /// one with new contents must have a new name (see Texture::upload).
  bool replaced_by(const ImDrawData& data);
  /// The screen lost the picture: the next one replaces it, whatever it is.
  void forget() { lists_.clear(); }

 private:
  struct List {
    std::vector<ImDrawCmd> commands;
    std::vector<ImDrawIdx> indices;
    std::vector<ImDrawVert> vertices;
  };

  ImVec2 size_{0, 0};
  std::vector<List> lists_;
};

// Presses and releases of mouse buttons, in the order in which they happened.

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
