// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/difference/difference.h"

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
