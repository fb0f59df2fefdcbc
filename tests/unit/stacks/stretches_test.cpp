// SPDX-License-Identifier: Apache-2.0
// Stretches compared with a walk without memory.
#include "collector/stacks/recent_walks.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "tests/unit/stacks/made_up_code.h"

namespace memreel::stacks {
namespace {

using namespace made_up;  // NOLINT(google-build-using-namespace)

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
    const std::array<WalkState, 3> begins = some_begins(random, code, stack);
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

/// There is no reading ahead on a stack that is not known to be readable.
TEST(Stretches, StayInsideOfWhatCanBeRead) {
  std::mt19937 random(2);
  const Code code(random);
  const auto stretches = std::make_unique<Stretches>();
  const Stack stack(random, code);
  std::size_t followed = 0;
  for (int round = 0; round < 2000; ++round) {
    const WalkState begin{.address = code.some_address(random), .rsp = stack.low(), .rbp = stack.low() + 8 * word};
    StackBounds less = stack.bounds();
    less.high -= random() % 64 * word;  // the memory above may no longer be readable
    ASSERT_EQ(walk(code, less, begin, *stretches, followed), walk(code, less, begin));
  }
  EXPECT_GT(followed, 0U);
}

TEST(Stretches, HaveNewNumbersWhenTheyWereForgotten) {
  const auto stretches = std::make_unique<Stretches>();
  Stretch stretch{};
  stretch.begin = 0x1000;
  stretches->put(stretch);
  ASSERT_NE(stretches->find(0x1000), nullptr);
  const std::uint64_t number = stretches->find(0x1000)->number;
  stretches->forget();
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
