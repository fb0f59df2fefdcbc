// SPDX-License-Identifier: Apache-2.0
// The stack walk for aarch64: its procedure call standard keeps frame records (AAPCS64, 6.4.6), and Linux compilers
// emit them by default.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/unwind.h"

namespace memreel::stacks {
namespace {

/// A return address without the signature that pointer authentication may have put in its upper bits.
std::uintptr_t without_signature(std::uintptr_t address) {
  register std::uintptr_t link asm("x30") = address;
  asm("hint #7" : "+r"(link));  // xpaclri; does nothing on processors without it
  return link;
}

}  // namespace

/// Each step is just a load, so nothing is cached.
[[gnu::noinline]] Walked Unwinder::walk(StackBounds& bounds, EarlierWalks* /*earlier*/, std::span<FrameKey> frames,
                                        StackWords words) {
  auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (!bounds.are_for(frame)) [[unlikely]]
    bounds = own_stack_bounds(bounds, frame);
  StackMemory memory(bounds, frame);
  std::size_t count = 0;
  while (count < frames.size()) {
    std::uintptr_t caller = 0, address = 0;
    if (!memory.read(frame, caller) || !memory.read(frame + sizeof frame, address) || address == 0) break;
    frames[count] = FrameKey::native(without_signature(address));
    if (!words.empty()) words[count] = frames[count].bits;
    ++count;
    if (caller <= frame) break;
    frame = caller;
  }
  return {.frames = count, .words = words.empty() ? 0 : count};
}

namespace {

/// A branch that is no call: its opcode in the bits of `mask`, its distance in instructions in `bits` from `shift` on.
struct Branch {
  std::uint32_t mask, opcode;
  unsigned shift, bits;
};
constexpr Branch branches[] = {
    {0xFC00'0000, 0x1400'0000, 0, 26},  // b
    {0xFF00'0010, 0x5400'0000, 5, 19},  // b.cond
    {0x7E00'0000, 0x3400'0000, 5, 19},  // cbz, cbnz
    {0x7E00'0000, 0x3600'0000, 5, 14},  // tbz, tbnz
};

std::optional<std::uintptr_t> branch_target(std::uintptr_t address, std::uint32_t instruction) {
  for (const Branch& branch : branches) {
    if ((instruction & branch.mask) != branch.opcode) continue;
    const auto upwards = static_cast<std::int32_t>(instruction << (32 - branch.shift - branch.bits));
    const std::int64_t distance = upwards >> (32 - branch.bits);
    return address + static_cast<std::uintptr_t>(distance * 4);
  }
  return std::nullopt;
}

}  // namespace

std::vector<AddressRange> parts_of(AddressRange function, const CallFrames& tables) {
  std::vector<AddressRange> parts{function};
  // Data between instructions may look like a branch: its target is then essentially random, and no part of the module
  // is hit by several.
  constexpr int enough = 4;
  std::map<std::uintptr_t, int> jumps_into;
  for (std::uintptr_t at = function.begin; at + sizeof(std::uint32_t) <= function.end; at += sizeof(std::uint32_t)) {
    std::uint32_t instruction = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): code that is mapped
    std::memcpy(&instruction, reinterpret_cast<const void*>(at), sizeof instruction);
    const std::optional<std::uintptr_t> target = branch_target(at, instruction);
    if (!target || function.contains(*target)) continue;
    const std::optional<AddressRange> other = function_at(tables, *target);
    if (other && *target != other->begin && ++jumps_into[other->begin] == enough) parts.push_back(*other);
  }
  return parts;
}

}  // namespace memreel::stacks
