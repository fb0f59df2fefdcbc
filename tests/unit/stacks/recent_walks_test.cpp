// SPDX-License-Identifier: Apache-2.0
// Remembered walks compared with walks without memory.
#include "collector/stacks/recent_walks.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "collector/stacks/unwind.h"
#include "tests/unit/stacks/made_up_code.h"

namespace memreel::stacks {
namespace {

using namespace made_up;  // NOLINT(google-build-using-namespace)

struct Memory {
  RecentWalks recent;
  Stretches stretches;
};

struct Result {
  Frames frames;
  std::uint64_t number = 0;
  bool was_known = false;
};

/// As in unwind_x86_64.cpp: frame by frame, by stretches, or all at once.
Result walk(const Code& code, const StackBounds& bounds, WalkState state, Memory& earlier, std::size_t most = 64) {
  StackMemory memory(bounds, state.rsp);
  std::array<FrameKey, 64> known{};
  Result result;
  const auto take = [&](std::span<const FrameKey> frames) {
    for (const FrameKey frame : frames) result.frames.push_back(frame.bits);
  };
  if (const RecentWalks::Walk* const found = earlier.recent.find(state, memory, most)) {
    earlier.recent.write_frames(*found, known.data());
    take(std::span(known).first(found->frames()));
    result.number = found->number();
    result.was_known = true;
    return result;
  }
  WalkInMaking whole(earlier.recent, state);
  StretchInMaking making;
  bool at_end = false;
  while (!at_end && result.frames.size() < most) {
    if (const Stretch* const stretch = earlier.stretches.find(state.address)) {
      making.end(earlier.stretches);
      const WalkState before = state;
      std::array<FrameKey, Stretch::longest> callers{};
      const bool fits = Stretch::longest <= most - result.frames.size();
      const std::size_t count = fits ? follow(*stretch, memory, state, callers.data()) : 0;
      take(std::span(callers).first(count));
      if (count > 0) {
        whole.add(*stretch, before, count);
        continue;
      }
    } else if (!making.begun()) {
      making.begin(state);
    }
    at_end = code.at(state.address) == nullptr;
    std::uintptr_t measured_from = 0, base_at = 0;
    if (at_end || !step(code, memory, state, measured_from, base_at)) break;
    result.frames.push_back(state.address);
    if (measured_from != 0) whole.go_by_base(measured_from);
    whole.add(state.address, state.rsp - word, base_at);
    if (making.begun() && (!making.add(state.address, state.rsp, measured_from, base_at) || making.complete()))
      making.end(earlier.stretches);
  }
  making.end(earlier.stretches);
  const bool is_cut = result.frames.size() == most;
  if (at_end || is_cut) result.number = whole.keep(is_cut);
  return result;
}

TEST(RecentWalks, LeadWhereEveryStepLeadsWhateverChanges) {
  std::mt19937 random(3);
  int known = 0, walks = 0;
  for (int program = 0; program < 200; ++program) {
    const Code code(random, program % 2 == 0 ? 12 : 150);
    const auto earlier = std::make_unique<Memory>();
    std::map<std::uint64_t, Frames> by_number;
    Stack stack(random, code);
    const std::array<WalkState, 3> begins = some_begins(random, code, stack);
    for (int round = 0; round < 1000; ++round, ++walks) {
      WalkState begin = begins.at(random() % begins.size());
      if (random() % 8 == 0) begin.rbp = stack.low() + random() % 64 * word;
      const std::size_t most = random() % 4 == 0 ? 5 : 64;
      const Result result = walk(code, stack.bounds(), begin, *earlier, most);
      ASSERT_EQ(result.frames, walk(code, stack.bounds(), begin, most));
      if (result.number != 0) {
        ASSERT_EQ(by_number.try_emplace(result.number, result.frames).first->second, result.frames);
      }
      known += result.was_known ? 1 : 0;
      if (round % 4 == 0) stack.change_one(random, code);
      if (round % 20 == 0) stack.lay_frames(random, code, begins.front());
    }
  }
  EXPECT_GT(known, walks / 10) << "of " << walks;
}

/// A walk that ended at unreadable memory may get further next time, so it is not kept; a remembered one is not
/// followed into memory that is no longer readable.
TEST(RecentWalks, StayInsideOfWhatCanBeRead) {
  std::mt19937 random(4);
  int known = 0;
  for (int program = 0; program < 50; ++program) {
    const Code code(random);
    const auto earlier = std::make_unique<Memory>();
    const Stack stack(random, code);
    const WalkState begin{.address = code.some_address(random), .rsp = stack.low(), .rbp = stack.low() + 8 * word};
    for (int round = 0; round < 50; ++round) {
      StackBounds less = stack.bounds();
      less.high -= random() % 64 * word;
      const Result result = walk(code, less, begin, *earlier);
      ASSERT_EQ(result.frames, walk(code, less, begin));
      known += result.was_known ? 1 : 0;
    }
  }
  EXPECT_GT(known, 0);
}

/// One frame on a stack of one word.
struct OneFrame {
  std::array<std::uintptr_t, 2> words{0x2000, 0};
  WalkState begin{.address = 0x1000, .rsp = reinterpret_cast<std::uintptr_t>(words.data()), .rbp = 7};
  StackBounds bounds{.low = begin.rsp, .high = begin.rsp + sizeof words};
  StackMemory memory{bounds, begin.rsp};

  std::uint64_t keep(RecentWalks& walks, bool is_cut = false) const {
    WalkInMaking making(walks, begin);
    making.add(words[0], begin.rsp, 0);
    return making.keep(is_cut);
  }
  /// The number of the remembered walk; 0: none.
  std::uint64_t find(RecentWalks& walks, std::size_t most = 4) const {
    const RecentWalks::Walk* const found = walks.find(begin, memory, most);
    return found != nullptr ? found->number() : 0;
  }
};

TEST(RecentWalks, HaveNewNumbersWhenTheyWereForgotten) {
  const auto walks = std::make_unique<RecentWalks>();
  OneFrame stack;
  const std::uint64_t number = stack.keep(*walks);
  ASSERT_EQ(stack.find(*walks), number);
  walks->forget();
  EXPECT_EQ(stack.find(*walks), 0U);
  EXPECT_NE(stack.keep(*walks), number) << "words of stacks would have two meanings";
}

TEST(EarlierWalks, AreForgottenWithTheRulesTheyCameFrom) {
  const auto walks = std::make_unique<EarlierWalks>();
  OneFrame stack;
  stack.keep(walks->recent);
  Stretch stretch{};
  stretch.begin = 0x1000;
  walks->stretches.put(stretch);
  walks->belong_to(0);
  EXPECT_NE(stack.find(walks->recent), 0U);
  EXPECT_NE(walks->stretches.find(0x1000), nullptr);
  walks->belong_to(1);
  EXPECT_EQ(stack.find(walks->recent), 0U);
  EXPECT_EQ(walks->stretches.find(0x1000), nullptr);
}

TEST(RecentWalks, KnowWhatStackTheyAreAlone) {
  const auto walks = std::make_unique<RecentWalks>();
  OneFrame stack;
  stack.keep(*walks);
  RecentWalks::Walk* const walk = walks->find(stack.begin, stack.memory, 4);
  ASSERT_NE(walk, nullptr);
  EXPECT_EQ(walk->stack(), StackKey::none) << "nobody has said";
  walk->set_stack(StackKey{5});
  EXPECT_EQ(walks->find(stack.begin, stack.memory, 4)->stack(), StackKey{5});
  walks->forget();
  stack.keep(*walks);
  EXPECT_EQ(walks->find(stack.begin, stack.memory, 4)->stack(), StackKey::none) << "what it led through is gone";
}

TEST(RecentWalks, BeginInTheSameState) {
  const auto walks = std::make_unique<RecentWalks>();
  OneFrame stack;
  stack.keep(*walks);
  stack.begin.rbp = 8;
  EXPECT_NE(stack.find(*walks), 0U) << "nothing was measured from rbp";
  stack.begin.address = 0x1010;
  EXPECT_EQ(stack.find(*walks), 0U);

  WalkInMaking making(*walks, stack.begin);
  making.go_by_base(stack.begin.rbp);
  making.add(stack.words[0], stack.begin.rsp, 0);
  making.keep(false);
  EXPECT_NE(stack.find(*walks), 0U);
  stack.begin.rbp = 9;
  EXPECT_EQ(stack.find(*walks), 0U);
}

TEST(RecentWalks, GoByWhatAFrameThatAlignedItsStackWasMeasuredFrom) {
  const auto walks = std::make_unique<RecentWalks>();
  // From the bottom: the CFA's location, the caller's rbp, padding, the return address.
  std::array<std::uintptr_t, 6> stack{};
  const auto at = [&](std::size_t i) { return reinterpret_cast<std::uintptr_t>(&stack.at(i)); };
  stack = {at(5), 7, 0, 0, 0x2000, 0};
  WalkState begin{.address = 0x1000, .rsp = at(0), .rbp = at(1)};
  const StackMemory memory({.low = at(0), .high = at(0) + sizeof stack}, begin.rsp);
  WalkInMaking making(*walks, begin);
  making.add_realigned(0x2000, at(5), at(0), begin.rbp);
  ASSERT_NE(making.keep(false), 0U);
  EXPECT_NE(walks->find(begin, memory, 4), nullptr);
  stack[1] = 8;
  EXPECT_NE(walks->find(begin, memory, 4), nullptr) << "nothing was measured from what it saved";
  stack[0] = at(4);
  EXPECT_EQ(walks->find(begin, memory, 4), nullptr);
  stack[0] = at(5);
  begin.rbp = at(2);
  EXPECT_EQ(walks->find(begin, memory, 4), nullptr);
}

TEST(RecentWalks, OneThatWasCutIsForWhoHasAsMuchRoom) {
  const auto walks = std::make_unique<RecentWalks>();
  OneFrame stack;
  stack.keep(*walks, true);
  EXPECT_NE(stack.find(*walks, 1), 0U);
  EXPECT_EQ(stack.find(*walks, 4), 0U);
}

TEST(RecentWalks, SpoiltEmptyLongAndWideOnesAreNotKept) {
  const auto walks = std::make_unique<RecentWalks>();
  OneFrame stack;
  WalkInMaking empty(*walks, stack.begin);
  EXPECT_EQ(empty.keep(false), 0U);
  WalkInMaking spoilt(*walks, stack.begin);
  spoilt.add(stack.words[0], stack.begin.rsp, 0);
  spoilt.spoil();
  EXPECT_EQ(spoilt.keep(false), 0U);
  WalkInMaking too_long(*walks, stack.begin);
  for (int i = 0; i < 5000; ++i) too_long.add(stack.words[0], stack.begin.rsp, 0);
  EXPECT_EQ(too_long.keep(false), 0U);
  WalkInMaking too_far(*walks, stack.begin);
  too_far.add(stack.words[0], stack.begin.rsp, 0);
  too_far.add(stack.words[0], stack.begin.rsp + (std::uintptr_t{1} << 19U), 0);
  EXPECT_EQ(too_far.keep(false), 0U);
  EXPECT_EQ(stack.find(*walks), 0U);
}

TEST(RecentWalks, FourOfOneBeginningHaveRoom) {
  const auto walks = std::make_unique<RecentWalks>();
  OneFrame stack;
  std::array<std::uint64_t, 4> numbers{};
  for (std::size_t i = 0; i < 4; ++i) {
    stack.words[0] = 0x2000 + i;
    numbers.at(i) = stack.keep(*walks);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    stack.words[0] = 0x2000 + i;
    EXPECT_EQ(stack.find(*walks), numbers.at(i));
  }
}

TEST(RecentWalks, WhenTheirMemoryIsFullTheyBeginAnew) {
  const auto walks = std::make_unique<RecentWalks>();
  OneFrame stack;
  std::uint64_t last = 0;
  for (int i = 0; i < 300'000; ++i) {
    stack.words[0] = 0x2000 + static_cast<std::uintptr_t>(i);
    const std::uint64_t number = stack.keep(*walks);
    ASSERT_GT(number, last);
    ASSERT_EQ(stack.find(*walks), number);
    last = number;
  }
}

}  // namespace
}  // namespace memreel::stacks
