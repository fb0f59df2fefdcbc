// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/difference/stack_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;
using ::testing::UnorderedElementsAre;

TEST(StackMatch, EqualStacksAreTheSameWhateverTheirIds) {
  TraceBuilder a, b;
  const StackId a1 = a.stack({"step@train.py:41", "main@train.py:80"});
  const StackId a2 = a.stack({"eval@train.py:60", "main@train.py:81"});
  const StackId b2 = b.stack({"eval@train.py:60", "main@train.py:81"});
  const StackId b1 = b.stack({"step@train.py:41", "main@train.py:80"});
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1, a2}, b.trace().tables, std::vector{b1, b2}),
              UnorderedElementsAre(StackPair{a1, b1}, StackPair{a2, b2}));
}

TEST(StackMatch, LinesMayMove) {
  TraceBuilder a, b;
  const StackId a1 = a.stack({"step@train.py:41", "main@train.py:80"});
  const StackId b1 = b.stack({"step@train.py:45", "main@train.py:84"});
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1}, b.trace().tables, std::vector{b1}),
              UnorderedElementsAre(StackPair{a1, b1}));
}

TEST(StackMatch, CompiledCodeLiesInAnotherFileAfterEachBuild) {
  TraceBuilder a, b;
  const auto call = [](TraceBuilder& build, std::string_view name, int line) {
    const std::string frame = "call@/tmp/torchinductor_me/xl/" + std::string(name) + ".py:" + std::to_string(line);
    return build.stack({frame, "softmax@model.py:175"});
  };
  const std::string_view before = "crqi2a6dihdc7igjszimu4qy53wgjmtr5a74xbkv4kfftdkix7f5";
  const std::string_view now = "cxlfggreihdc7igjszimu4qy53wgjmtr5a74xbkv4kfftdkix7f5";
  const StackId a1 = call(a, before, 210), a2 = call(a, before, 230);
  const StackId b2 = call(b, now, 250), b1 = call(b, now, 220);
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1, a2}, b.trace().tables, std::vector{b1, b2}),
              UnorderedElementsAre(StackPair{a1, b1}, StackPair{a2, b2}));
}

// The unmoved line keeps its match; the other, in the same function, is the one that moved.
TEST(StackMatch, AnExactPartnerComesBeforeOneThatMoved) {
  TraceBuilder a, b;
  const StackId a1 = a.stack({"step@train.py:41"});
  const StackId a2 = a.stack({"step@train.py:50"});
  const StackId b1 = b.stack({"step@train.py:39"});
  const StackId b2 = b.stack({"step@train.py:41"});
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1, a2}, b.trace().tables, std::vector{b1, b2}),
              UnorderedElementsAre(StackPair{a1, b2}, StackPair{a2, b1}));
}

TEST(StackMatch, LinesThatMovedTogetherKeepTheirOrder) {
  TraceBuilder a, b;
  const StackId a1 = a.stack({"step@train.py:10"});
  const StackId a2 = a.stack({"step@train.py:20"});
  const StackId b2 = b.stack({"step@train.py:27"});
  const StackId b1 = b.stack({"step@train.py:17"});
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1, a2}, b.trace().tables, std::vector{b2, b1}),
              UnorderedElementsAre(StackPair{a1, b1}, StackPair{a2, b2}));
}

TEST(StackMatch, ACheckoutMayLieElsewhere) {
  TraceBuilder a, b;
  const StackId a1 = a.stack({"step@/home/me/project/train.py:41"});
  const StackId b1 = b.stack({"step@/builds/7/project/train.py:41"});
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1}, b.trace().tables, std::vector{b1}),
              UnorderedElementsAre(StackPair{a1, b1}));
}

TEST(StackMatch, AnotherCallerIsAnotherStack) {
  TraceBuilder a, b;
  const StackId a1 = a.stack({"step@train.py:41", "main@train.py:80"});
  const StackId b1 = b.stack({"step@train.py:41", "evaluate@train.py:80"});
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1}, b.trace().tables, std::vector{b1}),
              UnorderedElementsAre(StackPair{a1, StackId::none}, StackPair{StackId::none, b1}));
}

/// Stacks of one side, and what they hold in KiB: one allocation each.
struct Held {
  TraceBuilder build;
  std::vector<StackId> stacks;
  std::vector<Holding> held;

  explicit Held(const std::vector<std::pair<std::vector<std::string_view>, std::uint64_t>>& all) {
    for (const auto& [frames, kib] : all) {
      stacks.push_back(build.stack(frames));
      held.resize(build.trace().tables.stacks.size());
      held.back() = {{kib << 10U}, 1};
    }
  }
};

std::vector<StackPair> match(Held& a, Held& b) {
  return match_stacks(a.build.trace().tables, a.stacks, b.build.trace().tables, b.stacks, {a.held, b.held});
}

/// Whether the only stack of each side is the same code.
bool are_paired(Held a, Held b) {
  const std::vector<StackPair> pairs = match(a, b);
  EXPECT_EQ(match(b, a).size(), pairs.size());
  EXPECT_THAT(pairs.size(), ::testing::AnyOf(1, 2));
  return pairs.size() == 1;
}

TEST(StackMatch, OfMovedLinesThoseThatHoldTheSameAreTheSame) {
  Held a({{{"step@train.py:10"}, 16}, {{"step@train.py:20"}, 32}});
  Held b({{{"step@train.py:5"}, 8}, {{"step@train.py:12"}, 16}, {{"step@train.py:22"}, 32}});
  EXPECT_THAT(match(a, b),
              UnorderedElementsAre(StackPair{a.stacks[0], b.stacks[1]}, StackPair{a.stacks[1], b.stacks[2]},
                                   StackPair{StackId::none, b.stacks[0]}));
  // Of as many lines, the order says it: with a larger batch, one may hold what another did.
  Held larger({{{"step@train.py:12"}, 64}, {{"step@train.py:22"}, 16}});
  EXPECT_THAT(match(a, larger),
              UnorderedElementsAre(StackPair{a.stacks[0], larger.stacks[0]}, StackPair{a.stacks[1], larger.stacks[1]}));
}

TEST(StackMatch, AnEditedCellIsTheSameCell) {
  const auto in_cell = [](std::string_view cell, std::uint64_t kib) {
    return Held({{{"forward@model.py:41", cell}, kib}});
  };
  const std::string_view before = "<module>@/tmp/ipykernel_7/111.py:41";
  for (const std::string_view now : {"<module>@/tmp/ipykernel_9/222.py:40", R"(<module>@C:\Temp\ipykernel_9\222.py:40)",
                                     "<module>@<ipython-input-3-2a>:4"}) {
    EXPECT_TRUE(are_paired(in_cell(before, 16), in_cell(now, 16))) << now;
    EXPECT_TRUE(are_paired(in_cell(before, 16), in_cell(now, 8))) << now << ", the only candidate";
  }
  EXPECT_FALSE(are_paired(in_cell(before, 16), in_cell("<module>@other.py:40", 8)));
  // Which of two calls the smaller one is, is not known.
  Held a = in_cell(before, 16);
  Held b({{{"forward@model.py:41", "<module>@/tmp/ipykernel_9/222.py:40"}, 8},
          {{"forward@model.py:41", "<module>@/tmp/ipykernel_9/222.py:50"}, 4}});
  EXPECT_THAT(match(a, b), ::testing::SizeIs(3));
  b.held[index(b.stacks[1])] = a.held[index(a.stacks[0])];
  EXPECT_THAT(match(a, b),
              UnorderedElementsAre(StackPair{a.stacks[0], b.stacks[1]}, StackPair{StackId::none, b.stacks[0]}));
}

TEST(StackMatch, WhatACellItselfRequestsIsTheSameOnlyIfItHoldsTheSame) {
  const auto cell = [](std::string_view cell, std::uint64_t kib) { return Held({{{cell}, kib}}); };
  const std::string_view before = "<module>@/tmp/ipykernel_7/111.py:41", now = "<module>@/tmp/ipykernel_7/222.py:3";
  EXPECT_TRUE(are_paired(cell(before, 16), cell(now, 16)));
  EXPECT_FALSE(are_paired(cell(before, 16), cell(now, 8)));
}

TEST(StackMatch, AnEditedFunctionIsFoundByWhatItHolds) {
  const std::string_view zeros = "at::_ops::zeros::call@:0", cat = "at::_ops::cat::call@:0";
  const auto held = [](std::vector<std::string_view> frames, std::uint64_t kib) {
    return Held({{std::move(frames), kib}});
  };
  const Held before = held({zeros, "torch::zeros@:0", "forward@/home/me/model.py:86", "train@train.py:80"}, 16);
  EXPECT_TRUE(are_paired(before, held({zeros, "forward@/builds/7/model.py:92", "epoch@train.py:81"}, 16)));
  EXPECT_FALSE(are_paired(before, held({zeros, "forward@/home/me/model.py:92", "epoch@train.py:81"}, 8))) << "size";
  EXPECT_FALSE(are_paired(before, held({cat, "forward@/home/me/model.py:92", "epoch@train.py:81"}, 16))) << "operation";
  EXPECT_FALSE(are_paired(before, held({zeros, "backward@/home/me/model.py:92", "epoch@train.py:81"}, 16)))
      << "function";
  EXPECT_FALSE(are_paired(before, held({zeros, "forward@/home/me/other.py:92", "epoch@train.py:81"}, 16))) << "file";
  EXPECT_FALSE(are_paired(held({zeros}, 16), held({zeros, "torch::zeros@:0"}, 16))) << "no function of the program";
}

StackId native(TraceBuilder& build, std::string_view module, std::uint64_t base, std::uint64_t offset) {
  Tables& tables = build.trace().tables;
  tables.modules.push_back({.path = build.string(module), .base = {base}});
  tables.frames.push_back(
      {.module = ModuleId{static_cast<std::uint32_t>(tables.modules.size() - 1)}, .module_offset = offset});
  tables.stacks.push_back({.frame = FrameId{static_cast<std::uint32_t>(tables.frames.size() - 1)}});
  return StackId{static_cast<std::uint32_t>(tables.stacks.size() - 1)};
}

TEST(StackMatch, LoadAddressesDoNotMatter) {
  TraceBuilder a, b;
  const StackId a1 = native(a, "/usr/lib/libtorch.so", 0x7f0000000000, 0x1234);
  const StackId a2 = native(a, "/usr/lib/libother.so", 0x7f1000000000, 0x1234);
  const StackId b2 = native(b, "/opt/lib/libother.so", 0x7f3000000000, 0x1234);
  const StackId b1 = native(b, "/opt/lib/libtorch.so", 0x7f2000000000, 0x1234);
  EXPECT_THAT(match_stacks(a.trace().tables, std::vector{a1, a2}, b.trace().tables, std::vector{b1, b2}),
              UnorderedElementsAre(StackPair{a1, b1}, StackPair{a2, b2}));
}

TEST(StackMatch, MemoryWithoutAStackIsOneKind) {
  TraceBuilder a, b;
  const StackId b1 = b.stack({"step@train.py:41"});
  EXPECT_THAT(
      match_stacks(a.trace().tables, std::vector{StackId::none}, b.trace().tables, std::vector{StackId::none, b1}),
      UnorderedElementsAre(StackPair{StackId::none, StackId::none}, StackPair{StackId::none, b1}));
}

}  // namespace
}  // namespace memreel
