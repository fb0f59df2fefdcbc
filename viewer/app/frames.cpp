// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/frames.h"

#include <cstring>

namespace memreel::viewer {
namespace {

template <typename T>
bool same_bytes(const ImVector<T>& a, const std::vector<T>& b) {
  const auto size = static_cast<std::size_t>(a.Size);
  return size == b.size() && (size == 0 || std::memcmp(a.Data, b.data(), size * sizeof(T)) == 0);
}

bool same_command(const ImDrawCmd& a, const ImDrawCmd& b) {
  return a.ClipRect.x == b.ClipRect.x && a.ClipRect.y == b.ClipRect.y && a.ClipRect.z == b.ClipRect.z &&
         a.ClipRect.w == b.ClipRect.w && a.GetTexID() == b.GetTexID() && a.VtxOffset == b.VtxOffset &&
         a.IdxOffset == b.IdxOffset && a.ElemCount == b.ElemCount && a.UserCallback == b.UserCallback;
}

bool needs_textures([[maybe_unused]] const ImDrawData& data) {
#ifdef IMGUI_HAS_TEXTURES
  return data.Textures != nullptr &&
         std::ranges::any_of(*data.Textures, [](const ImTextureData* t) { return t->Status != ImTextureStatus_OK; });
#else
  return false;
#endif
}

}  // namespace

bool ShownPicture::replaced_by(const ImDrawData& data) {
  const auto count = static_cast<std::size_t>(data.CmdListsCount);
  bool differs =
      lists_.size() != count || size_.x != data.DisplaySize.x || size_.y != data.DisplaySize.y || needs_textures(data);
  size_ = data.DisplaySize;
  lists_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ImDrawList& now = *data.CmdLists[static_cast<int>(i)];
    List& shown = lists_[i];
    if (std::equal(now.CmdBuffer.begin(), now.CmdBuffer.end(), shown.commands.begin(), shown.commands.end(),
                   same_command) &&
        same_bytes(now.IdxBuffer, shown.indices) && same_bytes(now.VtxBuffer, shown.vertices))
      continue;
    differs = true;
    shown.commands.assign(now.CmdBuffer.begin(), now.CmdBuffer.end());
    shown.indices.assign(now.IdxBuffer.begin(), now.IdxBuffer.end());
    shown.vertices.assign(now.VtxBuffer.begin(), now.VtxBuffer.end());
  }
  return differs;
}

}  // namespace memreel::viewer
