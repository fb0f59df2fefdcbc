// SPDX-License-Identifier: Apache-2.0
// Synthetic code and stacks in which any word may change, for comparing walks that use remembered data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "collector/stacks/recent_walks.h"

namespace memreel::stacks::made_up {

inline constexpr std::size_t word = sizeof(std::uintptr_t);

/// The effect of the code at a return address on the stack.
struct Rule {
  bool by_frame_pointer;
  std::uintptr_t offset, frame_pointer_below;  // as in UnwindRule
};

/// A program made entirely of return addresses. With few of them, each occurs in many places; with many, stretches are
/// long.
class Code {
 public:
  explicit Code(std::mt19937& random, std::size_t addresses = 12) {
    for (std::size_t i = 0; i < addresses; ++i) {
      const std::uintptr_t words = 1 + random() % 6;
      const bool saves = words > 1 && random() % 2 == 0;
      rules_[0x1000 + 16 * i] = {.by_frame_pointer = random() % 3 == 0,
                                 .offset = words * word,
                                 .frame_pointer_below = saves ? (2 + random() % (words - 1)) * word : 0};
    }
  }
  const Rule* at(std::uintptr_t address) const {
    const auto found = rules_.find(address);
    return found != rules_.end() ? &found->second : nullptr;
  }
  std::uintptr_t some_address(std::mt19937& random) const { return 0x1000 + 16 * (random() % rules_.size()); }

 private:
  std::map<std::uintptr_t, Rule> rules_;
};

class Stack {
 public:
  explicit Stack(std::mt19937& random, const Code& code) {
    for (std::uintptr_t& content : words_) content = likely_word(random, code);
  }
  void change_one(std::mt19937& random, const Code& code) {
    words_.at(random() % words_.size()) = likely_word(random, code);
  }
  /// Places frames for a walk from there to find, as far as the code allows; the outermost was called by no code.
  void lay_frames(std::mt19937& random, const Code& code, WalkState state) {
    const auto at = [&](std::uintptr_t address) -> std::uintptr_t& { return words_.at((address - low()) / word); };
    for (;;) {
      const Rule* const rule = code.at(state.address);
      const std::uintptr_t cfa = (rule->by_frame_pointer ? state.rbp : state.rsp) + rule->offset;
      if (cfa <= state.rsp || cfa - low() >= sizeof words_ - 16 * word) break;
      if (cfa - low() < rule->frame_pointer_below) break;
      state.rsp = cfa;
      state.address = at(cfa - word) = code.some_address(random);
      if (rule->frame_pointer_below != 0) state.rbp = at(cfa - rule->frame_pointer_below) = cfa + random() % 4 * word;
    }
    if (state.rsp > low()) at(state.rsp - word) = 0x10;
  }
  std::uintptr_t low() const { return reinterpret_cast<std::uintptr_t>(words_.data()); }
  std::uintptr_t high() const { return low() + sizeof words_; }
  StackBounds bounds() const { return {.low = low(), .high = high()}; }

 private:
  /// Mostly return addresses and stack addresses, so that walks continue.
  std::uintptr_t likely_word(std::mt19937& random, const Code& code) const {
    const std::uint_fast32_t kind = random() % 20;
    if (kind == 0) return random();
    return kind < 14 ? code.some_address(random) : low() + random() % words_.size() * word + (kind == 19 ? 4 : 0);
  }
  std::array<std::uintptr_t, 64> words_{};
};

/// A few initial walk states that recur.
inline std::array<WalkState, 3> some_begins(std::mt19937& random, const Code& code, const Stack& stack) {
  std::array<WalkState, 3> begins{};
  for (WalkState& begin : begins)
    begin = {.address = code.some_address(random),
             .rsp = stack.low() + random() % 8 * word,
             .rbp = stack.low() + random() % 64 * word};
  return begins;
}

/// One step by a rule, as in unwind_x86_64.cpp. `measured_from` and `base_at` as StretchInMaking expects them.
inline bool step(const Code& code, StackMemory& memory, WalkState& state, std::uintptr_t& measured_from,
                 std::uintptr_t& base_at) {
  const Rule* const rule = code.at(state.address);
  if (rule == nullptr) return false;
  measured_from = rule->by_frame_pointer ? state.rbp : 0;
  const std::uintptr_t cfa = (rule->by_frame_pointer ? state.rbp : state.rsp) + rule->offset;
  base_at = rule->frame_pointer_below != 0 ? cfa - rule->frame_pointer_below : 0;
  if (cfa <= state.rsp || !memory.read(cfa - word, state.address)) return false;
  if (base_at != 0 && !memory.read(base_at, state.rbp)) return false;
  state.rsp = cfa;
  return true;
}

using Frames = std::vector<std::uintptr_t>;

/// A walk without memory, limited to that many frames.
inline Frames walk(const Code& code, const StackBounds& bounds, WalkState state, std::size_t most = ~std::size_t{0}) {
  StackMemory memory(bounds, state.rsp);
  Frames frames;
  std::uintptr_t measured_from = 0, base_at = 0;
  while (frames.size() < most && step(code, memory, state, measured_from, base_at)) frames.push_back(state.address);
  return frames;
}

}  // namespace memreel::stacks::made_up
