// SPDX-License-Identifier: Apache-2.0
// The stack walk for aarch64: its procedure call standard keeps frame records (AAPCS64, 6.4.6), and Linux compilers
// emit them by default.
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

}  // namespace memreel::stacks
