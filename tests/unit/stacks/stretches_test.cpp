// Stretches against a walk that remembers nothing, on made-up code and made-up stacks of which any word may change.
#include "collector/stacks/stretches.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace memreel::stacks {
namespace {

constexpr std::size_t word = sizeof(std::uintptr_t);

/// What the code at a return address does to the stack.
struct Rule {
  bool by_frame_pointer;
  std::uintptr_t offset, frame_pointer_below;  // as UnwindRule has them
};

/// A program that is all return addresses: few, so that every one is met in many places.
class Code {
 public:
  explicit Code(std::mt19937& random) {
    for (std::size_t i = 0; i < 12; ++i) {
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
  std::uintptr_t low() const { return reinterpret_cast<std::uintptr_t>(words_.data()); }
  std::uintptr_t high() const { return low() + sizeof words_; }
  StackBounds bounds() const { return {.low = low(), .high = high()}; }

 private:
  /// Mostly return addresses and addresses on the stack, so that walks go on.
  std::uintptr_t likely_word(std::mt19937& random, const Code& code) const {
    const std::uint_fast32_t kind = random() % 20;
    if (kind == 0) return random();
    return kind < 14 ? code.some_address(random) : low() + random() % words_.size() * word + (kind == 19 ? 4 : 0);
  }
  std::array<std::uintptr_t, 64> words_{};
};

/// One step by a rule, as unwind_x86_64.cpp does it. `measured_from` and `base_at` as StretchInMaking wants them.
bool step(const Code& code, StackMemory& memory, WalkState& state, std::uintptr_t& measured_from,
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

Frames walk(const Code& code, const StackBounds& bounds, WalkState state) {
  StackMemory memory(bounds, state.rsp);
  Frames frames;
  std::uintptr_t measured_from = 0, base_at = 0;
  while (step(code, memory, state, measured_from, base_at)) frames.push_back(state.address);
  return frames;
}

Frames walk(const Code& code, const StackBounds& bounds, WalkState state, Stretches& stretches, std::size_t& followed) {
  StackMemory memory(bounds, state.rsp);
  Frames frames;
  StretchInMaking making;
  for (;;) {
    if (const Stretch* const known = stretches.find(state.address)) {
      making.end(stretches);
      std::array<FrameKey, Stretch::longest> callers{};
      const std::size_t count = follow(*known, memory, state, callers.data());
      for (const FrameKey caller : std::span(callers).first(count)) frames.push_back(caller.bits);
      followed += count;
      if (count > 0) continue;
    } else if (!making.begun()) {
      making.begin(state);
    }
    std::uintptr_t measured_from = 0, base_at = 0;
    if (!step(code, memory, state, measured_from, base_at)) break;
    frames.push_back(state.address);
    if (making.begun() && (!making.add(state.address, state.rsp, measured_from, base_at) || making.complete()))
      making.end(stretches);
  }
  making.end(stretches);
  return frames;
}

TEST(Stretches, LeadWhereEveryStepLeadsWhateverChanges) {
  std::mt19937 random(1);
  std::size_t followed = 0, walked = 0;
  for (int program = 0; program < 60; ++program) {
    const Code code(random);
    const auto stretches = std::make_unique<Stretches>();
    Stack stack(random, code);
    std::array<WalkState, 3> begins{};
    for (WalkState& begin : begins)
      begin = {.address = code.some_address(random),
               .rsp = stack.low() + random() % 8 * word,
               .rbp = stack.low() + random() % 64 * word};
    for (int round = 0; round < 1000; ++round) {
      WalkState begin = begins.at(random() % begins.size());
      if (random() % 8 == 0) begin.rbp = stack.low() + random() % 64 * word;
      const Frames expected = walk(code, stack.bounds(), begin);
      ASSERT_EQ(walk(code, stack.bounds(), begin, *stretches, followed), expected);
      walked += expected.size();
      if (round % 4 == 0) stack.change_one(random, code);
    }
  }
  EXPECT_GT(followed, walked / 10) << "of " << walked;
}

/// A stack that is not known to be readable is not read ahead.
TEST(Stretches, StayInsideOfWhatCanBeRead) {
  std::mt19937 random(2);
  const Code code(random);
  const auto stretches = std::make_unique<Stretches>();
  const Stack stack(random, code);
  std::size_t followed = 0;
  for (int round = 0; round < 2000; ++round) {
    const WalkState begin{.address = code.some_address(random), .rsp = stack.low(), .rbp = stack.low() + 8 * word};
    StackBounds less = stack.bounds();
    less.high -= random() % 64 * word;  // what lies above may be read no more
    ASSERT_EQ(walk(code, less, begin, *stretches, followed), walk(code, less, begin));
  }
  EXPECT_GT(followed, 0U);
}

TEST(Stretches, AreForgottenWithTheRulesTheyCameFrom) {
  const auto stretches = std::make_unique<Stretches>();
  Stretch stretch{};
  stretch.begin = 0x1000;
  stretches->put(stretch);
  stretches->belong_to(0);
  ASSERT_NE(stretches->find(0x1000), nullptr);
  const std::uint64_t number = stretches->find(0x1000)->number;
  stretches->belong_to(1);
  EXPECT_EQ(stretches->find(0x1000), nullptr);
  stretches->put(stretch);
  EXPECT_NE(stretches->find(0x1000)->number, number) << "words of stacks would have two meanings";
}

TEST(Stretches, TwoOfOneSetHaveRoom) {
  const auto stretches = std::make_unique<Stretches>();
  for (std::uintptr_t other = 0x1001; other < 0x1001 + 20'000; ++other) {
    Stretch stretch{};
    for (const std::uintptr_t begin : {std::uintptr_t{0x1000}, other}) {
      stretch.begin = begin;
      stretches->put(stretch);
    }
    ASSERT_NE(stretches->find(0x1000), nullptr);
    ASSERT_NE(stretches->find(other), nullptr);
  }
}

}  // namespace
}  // namespace memreel::stacks
