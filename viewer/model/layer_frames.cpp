#include "viewer/model/layer_frames.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "analyzer/category/frame_rules.h"
#include "formats/model/stack_text.h"

namespace memreel::viewer {

namespace {

bool is_own(const FrameText& frame) {
  if (frame.owner != CodeOwner::user) return false;
  return !passes_on(frame);
}

}  // namespace

std::vector<bool> layer_frames(const Tables& tables, const std::vector<StackMeaning>& stacks) {
  std::vector<bool> own(tables.frames.size());
  for (std::uint32_t f = 1; f < own.size(); ++f) own[f] = is_own(frame_text(tables, FrameId{f}));
  std::vector<bool> shown(std::min(stacks.size(), tables.stacks.size()));
  for (std::uint32_t s = 1; s < shown.size(); ++s) {
    const StackMeaning& meaning = stacks[s];
    if (meaning.call != StackId::none)
      shown[s] = meaning.call == StackId{s};
    else
      shown[s] = meaning.layer == StackId{s} || own[index(tables.stacks[s].frame)];
  }
  return shown;
}

bool has_layers(const std::vector<StackMeaning>& stacks) {
  return std::ranges::any_of(stacks,
                             [](const StackMeaning& s) { return s.layer != StackId::none || s.call != StackId::none; });
}

}  // namespace memreel::viewer
