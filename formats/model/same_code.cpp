#include "formats/model/same_code.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace memreel {
namespace {

/// For each FrameId the first frame of the same code.
std::vector<FrameId> first_frames(const Tables& tables) {
  std::vector<FrameId> first;
  std::map<std::tuple<std::string_view, std::string_view, std::uint32_t, ModuleId, std::uint64_t>, FrameId> known;
  for (std::uint32_t f = 0; f < tables.frames.size(); ++f) {
    const Frame& frame = tables.frames[f];
    const std::string_view function = tables[frame.function], file = tables[frame.file];
    const std::tuple key{function, file, frame.line, frame.module, frame.module_offset};
    first.push_back(known.try_emplace(key, FrameId{f}).first->second);
  }
  return first;
}

}  // namespace

std::vector<StackId> same_code(const Tables& tables) {
  std::vector<StackId> same;
  same.reserve(tables.stacks.size());
  for (std::uint32_t s = 0; s < tables.stacks.size(); ++s) same.push_back(StackId{s});
  const auto has_instance = [](const Frame& frame) { return frame.instance != StringId::none; };
  if (std::ranges::none_of(tables.frames, has_instance)) return same;

  const std::vector<FrameId> frames = first_frames(tables);
  std::unordered_map<std::uint64_t, StackId> known;  // by frame and caller
  for (std::uint32_t s = 1; s < tables.stacks.size(); ++s) {
    const Stack& stack = tables.stacks[s];
    const std::uint64_t key =
        std::uint64_t{index(frames[index(stack.frame)])} << 32U | index(same[index(stack.caller)]);
    same[s] = known.try_emplace(key, StackId{s}).first->second;
  }
  return same;
}

}  // namespace memreel
