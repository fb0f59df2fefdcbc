// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/difference/difference.h"

#include <gtest/gtest.h>

#include "tests/unit/category/torch_program.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

HeapDifference one_heap(TraceBuilder& a, TraceBuilder& b, const Instant& at = AtEnd{}) {
  auto heaps = difference({Analysis(a.trace()), at}, {Analysis(b.trace()), at});
  EXPECT_TRUE(heaps);
  EXPECT_EQ(heaps->size(), 1U);
  return heaps->at(0);
}

TEST(Difference, OfATraceAndItselfIsNothing) {
  TraceBuilder a;
  a.alloc(a.origin(HeapId{1}), {0x1000}, 4_KiB, a.stack({"step@train.py:41"}));
  const HeapDifference heap = one_heap(a, a);
  EXPECT_TRUE(heap.sites.empty());
  EXPECT_EQ(heap.a.live, heap.b.live);
  EXPECT_EQ(heap.b.live.bytes, 4_KiB);
}

TEST(Difference, NamesWhatGrewWhatIsNewAndWhatIsGone) {
  TraceBuilder a, b;
  const OriginId of_a = a.origin(HeapId{1});
  a.alloc(of_a, {0x1000}, 4_KiB, a.stack({"grow@train.py:1"}));
  a.alloc(of_a, {0x9000}, 1_KiB, a.stack({"gone@train.py:2"}));
  a.alloc(of_a, {0xa000}, 9_KiB, a.stack({"same@train.py:3"}));
  const OriginId of_b = b.origin(HeapId{1});
  b.alloc(of_b, {0x51000}, 9_KiB, b.stack({"same@train.py:3"}));
  b.alloc(of_b, {0x52000}, 3_KiB, b.stack({"new@train.py:2"}));
  const StackId grow = b.stack({"grow@train.py:1"});
  b.alloc(of_b, {0x53000}, 4_KiB, grow);
  b.alloc(of_b, {0x54000}, 4_KiB, grow);

  const HeapDifference heap = one_heap(a, b);

  ASSERT_EQ(heap.sites.size(), 3U);
  EXPECT_EQ(heap.sites[0].stack_b, grow);
  EXPECT_EQ(heap.sites[0].a, (Holding{4_KiB, 1}));
  EXPECT_EQ(heap.sites[0].b, (Holding{8_KiB, 2}));
  EXPECT_TRUE(heap.sites[1].is_new());
  EXPECT_EQ(heap.sites[1].b, (Holding{3_KiB, 1}));
  EXPECT_TRUE(heap.sites[2].vanished());
  EXPECT_EQ(change(heap.sites[2].a.bytes, heap.sites[2].b.bytes), -1024);
}

// Allocations that moved to another stack cancel out in the total, but show up by stack.
TEST(Difference, SaysWhatCheckpointingSaved) {
  using testing::Program;
  const auto step = [](bool checkpointed) {
    Program program;
    program.alloc(64, Program::parameter());
    const AllocationId kept = program.alloc(checkpointed ? 10 : 100, Program::module());
    if (checkpointed) {
      const AllocationId again = program.alloc(90, Program::recompute());
      program.free(again, Program::engine());
    }
    program.free(kept, Program::engine());
    program.pass(Program::state());
    return program;
  };
  Program without = step(false), with = step(true);
  const HeapDifference heap = one_heap(without.build(), with.build(), AtEvent{1});
  EXPECT_FALSE(heap.recomputes_a);
  EXPECT_TRUE(heap.recomputes_b);
  ASSERT_FALSE(heap.categories.empty());
  EXPECT_EQ(heap.categories[0].category, Category::activation);
  EXPECT_EQ(heap.categories[0].a, 100_KiB);
  EXPECT_EQ(heap.categories[0].b, 10_KiB);
  EXPECT_EQ(heap.categories[0].place, "forward (linear.py:10)");
}

TEST(Difference, ThePlaceOfACategoryMovesWithItsCode) {
  using testing::Program;
  const auto pass = [](std::uint64_t kib, int line) {
    Program program;
    program.alloc(64, Program::parameter());
    const AllocationId kept = program.alloc(kib, Program::module(line));
    program.free(kept, Program::engine());
    program.pass(Program::state());
    return program;
  };
  Program before = pass(100, 10), now = pass(110, 14);
  const HeapDifference heap = one_heap(before.build(), now.build(), AtEvent{1});
  ASSERT_FALSE(heap.categories.empty());
  EXPECT_EQ(heap.categories[0].category, Category::activation);
  EXPECT_EQ(heap.categories[0].place, "forward (linear.py:14)");
  EXPECT_EQ(heap.categories[0].place_a, 100_KiB);
  EXPECT_EQ(heap.categories[0].place_b, 110_KiB);
}

TEST(Difference, AddsUpToTheDifferenceOfWhatIsLive) {
  TraceBuilder a, b;
  const OriginId of_a = a.origin(HeapId{1});
  const OriginId of_b = b.origin(HeapId{1});
  std::uint64_t address = 0;
  for (std::uint64_t i = 1; i < 40; ++i) {
    a.alloc(of_a, {address += 0x10000}, Bytes{i * 512}, a.stack({"f@x.py:" + std::to_string(i % 7)}));
    b.alloc(of_b, {address}, Bytes{i * 768}, b.stack({"f@x.py:" + std::to_string(i % 5)}));
  }
  const HeapDifference heap = one_heap(a, b);
  std::int64_t sum = 0;
  for (const SiteChange& site : heap.sites) sum += change(site.a.bytes, site.b.bytes);
  EXPECT_EQ(sum, change(heap.a.live.bytes, heap.b.live.bytes));
}

TEST(Difference, FreedMemoryIsHeldUntilItWasLetGoOf) {
  TraceBuilder a;
  const OriginId origin = a.origin(HeapId{1});
  const AllocationId first = a.alloc(origin, {0x1000}, 4_KiB);
  a.alloc(origin, {0x3000}, 1_KiB);
  a.free(first);
  const auto heaps = difference({Analysis(a.trace()), AtPeak{}}, {Analysis(a.trace()), AtEnd{}});
  ASSERT_TRUE(heaps);
  EXPECT_EQ(heaps->at(0).a.live, (Holding{5_KiB, 2}));
  EXPECT_EQ(heaps->at(0).b.live, (Holding{1_KiB, 1}));
}

/// Three allocations of 4 MiB, with `known` KiB of them and of one of 1 MiB in stacks.
struct Sized {
  TraceBuilder build;
  explicit Sized(std::uint64_t known, std::string_view line = "step@train.py:1") {
    const OriginId origin = build.origin(HeapId{1});
    const StackId stack = build.stack({line}), older = build.stack({std::string(preexisting_frame) + "@:0"});
    std::uint64_t address = 0;
    for (const std::uint64_t kib : {4096U, 4096U, 4096U, 1024U}) {
      const bool is_known = kib <= known;
      build.alloc(origin, {address += 1U << 30U}, {kib << 10U}, is_known ? stack : older);
      if (is_known) known -= kib;
    }
  }
};

TEST(Difference, SizesAreComparedWhereOneSideHasNoStacks) {
  const auto by_size = [](const HeapDifference& heap) {
    for (const CategoryChange& change : heap.categories) EXPECT_EQ(change.place.empty(), heap.is_by_size);
    return heap.is_by_size;
  };
  Sized all(13312), two(9216), last(1024), none(0);
  for (auto* const other : {&all, &two, &last}) {
    EXPECT_TRUE(by_size(one_heap(none.build, other->build)));
    EXPECT_TRUE(by_size(one_heap(other->build, none.build)));
    EXPECT_TRUE(one_heap(none.build, other->build).sites.empty()) << "the same sizes";
  }
  EXPECT_TRUE(by_size(one_heap(none.build, none.build)));
  EXPECT_TRUE(by_size(one_heap(last.build, two.build))) << "less than a tenth has stacks";
  EXPECT_FALSE(one_heap(last.build, last.build).is_by_size);
  EXPECT_FALSE(one_heap(two.build, all.build).is_by_size);
  Sized more(0);
  more.build.alloc(more.build.origin(HeapId{1}), {0x1000}, 1_MiB);
  const HeapDifference heap = one_heap(all.build, more.build);
  ASSERT_EQ(heap.sites.size(), 1U);
  EXPECT_EQ(heap.sites[0].size, 1_MiB);
  EXPECT_EQ(heap.sites[0].a, (Holding{1_MiB, 1}));
  EXPECT_EQ(heap.sites[0].b, (Holding{2_MiB, 2}));
}

// What is older at one instant is so at the other.
TEST(Difference, InstantsOfOneRecordingAreComparedByStack) {
  Sized late(0);
  const StackId stack = late.build.stack({"step@train.py:1"});
  for (std::uint64_t i = 1; i < 20; ++i) late.build.alloc(late.build.origin(HeapId{1}), {i << 20U}, 1_MiB, stack);
  const Analysis analysis(late.build.trace());
  const auto heaps = difference({analysis, AtEvent{2}}, {analysis, AtEnd{}});
  ASSERT_TRUE(heaps);
  EXPECT_FALSE(heaps->at(0).is_by_size);
  EXPECT_EQ(heaps->at(0).sites.size(), 2U);
}

// Its allocations have no order.
TEST(Difference, OneInstantIsInNoPhase) {
  testing::Program program;
  program.alloc(64, testing::Program::within(testing::Program::module(), testing::Program::older()));
  TraceBuilder& build = program.build();
  const auto is_at = [&](const Instant& instant) { return text_of(instant, build.trace()); };
  ASSERT_TRUE(is_instant(build.trace()));
  EXPECT_EQ(one_heap(build, build, AtPeak{}).a.phase, Phase::other);
  EXPECT_EQ(is_at(AtPeak{}), "at the one instant");
  EXPECT_EQ(is_at(AtEnd{}), "at the one instant");
  EXPECT_EQ(is_at(AtEvent{0}), "after event 0");
  program.alloc(64, testing::Program::module());
  EXPECT_EQ(is_at(AtPeak{}), "at the peak");
  build.trace().losses.skipped = all_between_instants();
  EXPECT_EQ(is_at(AtPeak{}), "at the peak") << "a series has one";
}

TEST(Difference, HeapsAreMatchedByDevice) {
  TraceBuilder a, b;
  a.alloc(a.origin(HeapId{1}), {0x1000}, 4_KiB);
  b.alloc(b.origin(b.heap("torch.cuda", Level::framework, 1)), {0x1000}, 2_KiB);
  b.alloc(b.origin(HeapId{1}), {0x1000}, 5_KiB);
  const auto heaps = difference({Analysis(a.trace()), AtEnd{}}, {Analysis(b.trace()), AtEnd{}});
  ASSERT_TRUE(heaps);
  ASSERT_EQ(heaps->size(), 2U);
  EXPECT_EQ(heaps->at(0).device, 0);
  EXPECT_EQ(heaps->at(0).b.live.bytes, 5_KiB);
  EXPECT_EQ(heaps->at(1).device, 1);
  EXPECT_EQ(heaps->at(1).a.heap, HeapId::none);
  EXPECT_EQ(heaps->at(1).b.live.bytes, 2_KiB);
  EXPECT_EQ(heaps->at(1).sites.size(), 1U);
}

TEST(Difference, TheOnlyDevicesOfTwoRanksAreCompared) {
  TraceBuilder a, b;
  a.alloc(a.origin(HeapId{1}), {0x1000}, 4_KiB);
  b.alloc(b.origin(b.heap("torch.cuda", Level::framework, 1)), {0x1000}, 6_KiB);
  b.alloc(b.origin(b.heap("cuda.driver", Level::driver, 0)), {0x9000}, 1_KiB);  // a context, for instance
  const auto heaps = difference({Analysis(a.trace()), AtEnd{}}, {Analysis(b.trace()), AtEnd{}});
  ASSERT_TRUE(heaps);
  ASSERT_EQ(heaps->size(), 2U);
  EXPECT_EQ(heaps->at(0).a.live.bytes, 4_KiB);
  EXPECT_EQ(heaps->at(0).b.live.bytes, 6_KiB);
  EXPECT_EQ(heaps->at(0).a.device, 0);
  EXPECT_EQ(heaps->at(0).b.device, 1);
}

TEST(Difference, DevicesArePairedInOrderOrAsTold) {
  const auto with_devices = [](std::int32_t first, std::int32_t second) {
    TraceBuilder build;
    build.trace().tables.heaps[1].device = first;
    build.alloc(build.origin(HeapId{1}), {0x1000}, 4_KiB);
    build.alloc(build.origin(build.heap("torch.cuda", Level::framework, second)), {0x1000}, 6_KiB);
    return build.trace();
  };
  const Trace a = with_devices(0, 1), b = with_devices(2, 3), c = with_devices(1, 2);
  const auto devices = [](const Trace& trace) { return devices_of(trace.tables, heap_histories(trace)); };
  EXPECT_EQ(match_devices(devices(a), devices(b), {}), (DeviceMap{{-1, -1}, {0, 2}, {1, 3}}));
  EXPECT_EQ(match_devices(devices(a), devices(c), {}), (DeviceMap{{-1, -1}, {0, 1}, {1, 2}}));
  EXPECT_EQ(match_devices(devices(a), devices(b), {{0, 3}}), (DeviceMap{{-1, -1}, {0, 3}, {1, 2}}));
  EXPECT_EQ(match_devices(devices(a), devices(a), {{0, 1}}), (DeviceMap{{-1, -1}, {0, 1}, {1, 0}}));
  EXPECT_FALSE(difference({Analysis(a), AtEnd{}}, {Analysis(b), AtEnd{}}, {{0, 7}}));
}

void step(TraceBuilder& build, OriginId origin, Bytes size, std::string_view mark = "step") {
  build.free(build.alloc(origin, {0x1000}, size));
  Tables& tables = build.trace().tables;
  if (tables.marks.size() == 1) tables.marks.push_back({.name = build.string(mark)});
  build.push({.kind = EventKind::mark, .origin = origin, .value = 1});
}

TEST(Difference, StepsAreComparedOneByOne) {
  TraceBuilder a, b;
  const OriginId of_a = a.origin(HeapId{1});
  const OriginId of_b = b.origin(HeapId{1});
  for (int i = 0; i < 3; ++i) step(a, of_a, 1_MiB);
  for (int i = 0; i < 4; ++i) step(b, of_b, i < 2 ? 1_MiB : 3_MiB);
  const HeapDifference heap = one_heap(a, b);
  ASSERT_EQ(heap.steps.size(), 3U);
  EXPECT_EQ(heap.steps[1].a, heap.steps[1].b);
  EXPECT_EQ(heap.steps[2].a, 1_MiB);
  EXPECT_EQ(heap.steps[2].b, 3_MiB);
}

TEST(Difference, OnlyStepsOfOneKindAreCompared) {
  const auto compared = [](std::string_view mark_a, std::string_view mark_b) {
    TraceBuilder a, b;
    step(a, a.origin(HeapId{1}), 1_MiB, mark_a);
    for (int i = 0; i < 2; ++i) step(b, b.origin(HeapId{1}), 3_MiB, mark_b);
    const HeapDifference heap = one_heap(a, b);
    EXPECT_EQ(heap.a.steps.mark, mark_a);
    EXPECT_EQ(heap.b.steps.mark, mark_b);
    EXPECT_EQ(heap.a.steps.ends.size(), 1U);
    EXPECT_EQ(heap.b.steps.ends.size(), 2U);
    return heap.steps.size();
  };
  EXPECT_EQ(compared("step", "step"), 1U);
  EXPECT_EQ(compared("Optimizer.step#AdamW.step", "Optimizer.step#SGD.step"), 1U);
  EXPECT_EQ(compared("step", "Optimizer.step#AdamW.step"), 0U);
  EXPECT_EQ(compared("Optimizer.step#AdamW.step", "iteration"), 0U);
  EXPECT_EQ(compared("iteration", "decode"), 0U);
}

/// A loop without marks, `lower` lines below line 9: two allocations per round, the second of `size(round)` bytes.
template <class Size>
void loop(TraceBuilder& build, Size size, int lower = 0) {
  const OriginId origin = build.origin(HeapId{1});
  const std::string begin = "<module>@train.py:" + std::to_string(9 + lower);
  const std::string end = "<module>@train.py:" + std::to_string(10 + lower);
  const StackId first = build.stack({"forward@train.py:1", begin});
  const StackId second = build.stack({"loss@train.py:2", end});
  for (std::uint64_t round = 0; round < 20; ++round) {
    const AllocationId held = build.alloc(origin, {0x1000}, 1_MiB, first);
    build.free(build.alloc(origin, {0x900000}, size(round), second));
    build.free(held);
  }
}

TEST(Difference, StepsAreFoundWithoutMarks) {
  TraceBuilder a, b;
  loop(a, [](std::uint64_t) { return 1_MiB; });
  loop(b, [](std::uint64_t round) { return round == 7 ? 3_MiB : 1_MiB; });
  const HeapDifference heap = one_heap(a, b);
  EXPECT_EQ(heap.b.steps.mark, "found by what recurs at train.py:9");
  ASSERT_EQ(heap.steps.size(), 20U) << "the last one ends with the recording";
  for (std::size_t step = 0; step < heap.steps.size(); ++step) {
    EXPECT_EQ(heap.steps[step].a, 2_MiB);
    EXPECT_EQ(heap.steps[step].b, step == 7 ? 4_MiB : 2_MiB) << step;
  }
  // Nothing is live between two rounds.
  const auto between = difference({Analysis(b.trace()), AfterStep{8}}, {Analysis(b.trace()), AtPeak{}});
  ASSERT_TRUE(between);
  EXPECT_EQ(between->at(0).a.live.bytes, 0_B);
  EXPECT_EQ(between->at(0).b.live.bytes, 4_MiB);
}

TEST(Difference, StepsAreTheSameIfTheirLinesMoved) {
  const auto kind = [](std::string mark, std::string place) {
    return std::string(Steps{.mark = std::move(mark), .are_marked = false, .place = std::move(place)}.kind());
  };
  EXPECT_EQ(kind("each a call of the model at a.py:9", " at a.py:9"), kind("each a call of the model", ""));
  EXPECT_NE(kind("each a call of the model at a.py:9", " at a.py:9"), kind("each a backward pass", ""));
  EXPECT_EQ(kind(std::string(optimizer_passes), ""), Steps{.mark = "Optimizer.step#AdamW.step"}.kind());
  TraceBuilder a, b;
  loop(a, [](std::uint64_t) { return 1_MiB; });
  loop(
      b, [](std::uint64_t) { return 3_MiB; }, 4);
  const HeapDifference heap = one_heap(a, b);
  EXPECT_EQ(heap.a.steps.mark, "found by what recurs at train.py:9");
  EXPECT_EQ(heap.b.steps.mark, "found by what recurs at train.py:13");
  EXPECT_EQ(heap.steps.size(), 20U);
}

TEST(Difference, AnInstantThatATraceDoesNotHaveIsAnError) {
  TraceBuilder a;
  a.alloc(a.origin(HeapId{1}), {0x1000}, 4_KiB);
  EXPECT_FALSE(difference({Analysis(a.trace()), AfterStep{3}}, {Analysis(a.trace()), AtEnd{}}));
  EXPECT_FALSE(difference({Analysis(a.trace()), AtEnd{}}, {Analysis(a.trace()), AtEvent{99}}));
}

}  // namespace
}  // namespace memreel
