#include "viewer/panes/texture.h"

#include <GL/gl.h>
#include <GL/glext.h>

#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace memreel::viewer {

Texture::~Texture() {
  if (name_ != 0) glDeleteTextures(1, &name_);
}

void Texture::upload(std::uint32_t width, std::uint32_t height, std::span<const std::uint32_t> pixels) {
  GLuint before = std::exchange(name_, 0);
  glGenTextures(1, &name_);  // while the other exists: names of deleted textures are given again
  if (before != 0) glDeleteTextures(1, &before);
  glBindTexture(GL_TEXTURE_2D, name_);
  // Nearest filtering keeps a rectangle of one pixel one pixel.
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, static_cast<GLsizei>(width), static_cast<GLsizei>(height), 0, GL_RGBA,
               GL_UNSIGNED_BYTE, pixels.data());
}

// A pointer up to Dear ImGui 1.91.3, a number of 64 bits since.
ImTextureID Texture::id() const {
  using Number = std::conditional_t<sizeof(ImTextureID) == sizeof(std::uint64_t), std::uint64_t, std::uint32_t>;
  return std::bit_cast<ImTextureID>(Number{name_});
}

}  // namespace memreel::viewer
