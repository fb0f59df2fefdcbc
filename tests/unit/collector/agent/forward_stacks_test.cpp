// SPDX-License-Identifier: Apache-2.0
// The backward pass to which an allocation belongs.
#include "collector/trace/trace_builder.h"
#include "formats/writer/trace_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace memreel::agent {
namespace {

class Forward : public ::testing::Test {
 protected:
  /// A stack of these functions, innermost first.
  StackId stack(const std::vector<std::string>& functions) {
    StackId made = StackId::none;
    for (auto name = functions.rbegin(); name != functions.rend(); ++name)
      made = writer_.intern(Stack{.frame = writer_.intern(Frame{.function = writer_.intern(*name)}), .caller = made});
    return made;
  }

  std::vector<std::string> functions(StackId stack) {
    std::vector<std::string> names;
    for (StackId at = stack; at != StackId::none; at = writer_.tables()[at].caller)
      names.emplace_back(writer_.tables()[writer_.tables()[writer_.tables()[at].frame].function]);
    return names;
  }

  std::vector<std::byte> bytes_;
  TraceWriter writer_{memory_sink(bytes_), {.producer = "test"}};
  ForwardStacks stacks_{writer_};
};

TEST_F(Forward, TheOperatorCallsItsBackward) {
  stacks_.note(7, 1, stack({"conv", "forward", "main"}));
  EXPECT_EQ(
      functions(stacks_.linked(7, stack({"conv_backward", "engine"}))),
      (std::vector<std::string>{"conv_backward", "engine", std::string(backward_frame), "conv", "forward", "main"}));
}

TEST_F(Forward, TheSameIsMadeOnce) {
  stacks_.note(7, 1, stack({"conv", "main"}));
  const StackId backward = stack({"conv_backward"});
  EXPECT_EQ(stacks_.linked(7, backward), stacks_.linked(7, backward));
}

TEST_F(Forward, TheFirstStackWithANumberIsTheOperators) {
  stacks_.note(7, 1, stack({"conv"}));
  stacks_.note(7, 1, stack({"something later"}));
  EXPECT_EQ(functions(stacks_.linked(7, stack({"b"}))).back(), "conv");
}

TEST_F(Forward, WhatIsNotKnownStaysAsItIs) {
  const StackId backward = stack({"conv_backward"});
  EXPECT_EQ(stacks_.linked(7, backward), backward) << "no such operator";
  EXPECT_EQ(stacks_.linked(0, backward), backward) << "no number";
  stacks_.note(8, 1, StackId::none);
  EXPECT_EQ(stacks_.linked(8, backward), backward) << "no stack";
  stacks_.note(9, 1, stack({"conv"}));
  stacks_.note(9, 2, stack({"linear"}));
  EXPECT_EQ(stacks_.linked(9, backward), backward) << "two threads had the number";
}

TEST_F(Forward, AnOldOperatorGivesWay) {
  stacks_.note(7, 1, stack({"old"}));
  stacks_.note(7 + (1U << 16U), 1, stack({"new"}));
  const StackId backward = stack({"b"});
  EXPECT_EQ(stacks_.linked(7, backward), backward);
  EXPECT_EQ(functions(stacks_.linked(7 + (1U << 16U), backward)).back(), "new");
}

}  // namespace
}  // namespace memreel::agent
