// A texture on the graphics card.
#pragma once

#include <cstdint>
#include <span>

#include <imgui.h>

namespace memreel::viewer {

class Texture {
 public:
  Texture() = default;
  Texture(const Texture&) = delete;
  Texture& operator=(const Texture&) = delete;
  ~Texture();

  /// Replaces the texture by one of another name. Pixels are 0xAABBGGRR, row by row from the top. Needs a current
  /// OpenGL context, as the destructor does.
  void upload(std::uint32_t width, std::uint32_t height, std::span<const std::uint32_t> pixels);
  /// For ImDrawList::AddImage.
  ImTextureID id() const;
  bool empty() const { return name_ == 0; }

 private:
  std::uint32_t name_ = 0;
};

}  // namespace memreel::viewer
