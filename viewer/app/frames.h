// SPDX-License-Identifier: Apache-2.0
// What the window and the page need for their frames: a clock, and which frames change the picture.
#pragma once

#include <imgui.h>

#include <chrono>
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

}  // namespace memreel::viewer
