// SPDX-License-Identifier: Apache-2.0
// Native and Python frames merged into one stack.
#include "collector/stacks/stack_tree.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace memreel::stacks {
namespace {

constexpr std::array<AddressRange, 2> evaluator{{{1000, 2000}, {5000, 5010}}};
constexpr AddressRange plumbing{1100, 3000};

FrameKey n(std::uintptr_t address) { return FrameKey::native(address); }
FrameKey p(std::uint32_t code) { return FrameKey::python(code, 7); }

std::vector<FrameKey> merged(const std::vector<std::uintptr_t>& addresses, const std::vector<PythonFrame>& python,
                             std::size_t room = 100) {
  std::vector<FrameKey> native, frames(room);
  for (const std::uintptr_t address : addresses) native.push_back(n(address));
  frames.resize(merge(native, python, evaluator, plumbing, frames));
  return frames;
}

TEST(Merge, EveryEvaluatorGivesPlaceToTheFramesItRan) {
  EXPECT_EQ(merged({10, 1500, 20, 30, 5005, 40}, {{p(1), false}, {p(2), true}, {p(3), true}}),
            (std::vector{n(10), p(1), p(2), n(20), n(30), p(3), n(40)}));
}

TEST(Merge, ReturnAddressesAtTheBordersOfTheEvaluator) {
  EXPECT_EQ(merged({1000, 2000}, {{p(1), true}}), (std::vector{n(1000), p(1)}));
}

TEST(Merge, WhatIsLeftOverIsKept) {
  EXPECT_EQ(merged({10}, {{p(1), true}, {p(2), true}}), (std::vector{n(10), p(1), p(2)}));
  EXPECT_EQ(merged({1500, 1600}, {{p(1), true}}), (std::vector{p(1)}));
  EXPECT_EQ(merged({5005, 10}, {}), (std::vector{n(5005), n(10)}));
  EXPECT_EQ(merged({}, {}), std::vector<FrameKey>{});
}

TEST(Merge, TheInterpretersOwnFramesAreLeftOut) {
  EXPECT_EQ(merged({10, 2100, 1500, 2500, 2600, 1600, 3001, 3000}, {{p(1), true}, {p(2), true}}),
            (std::vector{n(10), p(1), p(2), n(3001)}));
}

TEST(Merge, TheOutermostFramesAreLostWhenThereIsNoRoom) {
  EXPECT_EQ(merged({10, 1500, 20}, {{p(1), false}, {p(2), true}}, 2), (std::vector{n(10), p(1)}));
}

TEST(Merge, KeysOfFramesHoldWhatWasPutIn) {
  const FrameKey frame = FrameKey::python(0x7FFF'FFFF, 0xFFFF'FFFF);
  EXPECT_TRUE(frame.is_python());
  EXPECT_EQ(frame.code(), 0x7FFF'FFFFU);
  EXPECT_EQ(frame.position(), 0xFFFF'FFFFU);
  EXPECT_FALSE(n(0x7FFF'FFFF'F000).is_python());
  EXPECT_EQ(n(0x7FFF'FFFF'F000).code_address(), 0x7FFF'FFFF'EFFFU);
}

}  // namespace
}  // namespace memreel::stacks
