// Tells frames that change the picture from those that don't.
#pragma once

#include <vector>

#include <imgui.h>

namespace memreel::viewer {

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
