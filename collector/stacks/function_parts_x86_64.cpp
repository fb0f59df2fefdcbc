// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "collector/stacks/code_map.h"

namespace memreel::stacks {
namespace {

/// The target of the jump that ends with the four-byte `displacement`.
std::uintptr_t target_at(const std::byte* displacement) {
  std::int32_t distance = 0;
  std::memcpy(&distance, displacement, sizeof distance);
  return reinterpret_cast<std::uintptr_t>(displacement) + sizeof distance + static_cast<std::uintptr_t>(distance);
}

}  // namespace

std::vector<AddressRange> parts_of(AddressRange function, const CallFrames& tables) {
  std::vector<AddressRange> parts{function};
  // An apparent jump may be part of another instruction: its target is then essentially random, and no part of the
  // module is hit by several.
  constexpr int enough = 4;
  constexpr std::size_t longest_jump = 6;  // 0F 80..8F: conditional; E9, one byte less: unconditional
  std::map<std::uintptr_t, int> jumps_into;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): code that is mapped
  const auto* const code = reinterpret_cast<const std::byte*>(function.begin);
  for (std::size_t i = 0; i + longest_jump <= function.end - function.begin; ++i) {
    const bool always = code[i] == std::byte{0xE9};
    const bool on_condition = code[i] == std::byte{0x0F} && (code[i + 1] & std::byte{0xF0}) == std::byte{0x80};
    if (!always && !on_condition) continue;
    const std::uintptr_t target = target_at(code + i + (always ? 1 : 2));
    if (function.contains(target)) continue;
    const std::optional<AddressRange> other = function_at(tables, target);
    if (other && target != other->begin && ++jumps_into[other->begin] == enough) parts.push_back(*other);
  }
  return parts;
}

}  // namespace memreel::stacks
