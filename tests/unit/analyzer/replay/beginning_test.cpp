// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/beginning.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/replay/registry.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::base;
using testing::History;

/// 8 MiB in use among 12 MiB that are free, and a free segment of 40 MiB; 18 MiB at the peak.
Prepared late_heap() {
  History history;
  history.settings({{"expandable_segments", "False"}});
  history.alloc(4_MiB, base);
  history.alloc(4_MiB, base + 12_MiB);
  history.free(history.alloc(10_MiB, base + 20_MiB));
  using enum InitialUse;
  Trace& trace = history.trace();
  const OriginId origin = trace.events.origin(1);
  trace.initial_heaps.push_back(
      {.heap = HeapId{1},
       .segments = {{.address = base,
                     .size = 20_MiB,
                     .origin = origin,
                     .range = base,
                     .blocks = {{4_MiB, allocated}, {8_MiB, free}, {4_MiB, allocated}, {4_MiB, free}}},
                    {.address = base + 20_MiB,
                     .size = 40_MiB,
                     .origin = origin,
                     .range = base + 20_MiB,
                     .blocks = {{40_MiB, free}}}}});
  trace.losses.began_late = true;
  return history.prepared();
}

BoundPolicy policy(const std::string& text) { return *bind_policy(parse_policies(text)->front()); }

ReplayResult replayed(const Prepared& heap, const std::string& text) { return policy(text).run(heap, {}); }

TEST(Beginning, HoldsAsMuchAsTheProgramDoesLater) {
  const Prepared heap = late_heap();
  ASSERT_TRUE(heap.initial);
  const Beginning likely = likely_beginning(*heap.initial, 18_MiB);
  EXPECT_EQ(likely.cached, 10_MiB);
  const Prepared begun = with_beginning(heap, likely);
  EXPECT_FALSE(begun.initial);
  // The free block of 8 MiB fits between those in use; those of 4 and 40 MiB would be more than the peak.
  EXPECT_EQ(begun.op, (std::vector{Op::alloc, Op::alloc, Op::alloc, Op::free, Op::alloc, Op::free}));
  EXPECT_EQ(begun.size, (std::vector{4_MiB, 8_MiB, 4_MiB, 8_MiB, 10_MiB, 10_MiB}));
  EXPECT_EQ(begun.slot_count, heap.slot_count + 1);
  EXPECT_EQ(begun.slot[1], heap.slot_count);
  EXPECT_EQ(replayed(begun, "bound.live").peak_live, 18_MiB);
}

TEST(Beginning, EveryOrderHasTheSameOlderAllocations) {
  const Prepared heap = late_heap();
  for (std::uint64_t order = 0; order < 8; ++order)
    for (const Bytes cached : {0_B, 10_MiB, 1_GiB}) {
      Prepared begun = with_beginning(heap, {.order = order, .cached = cached});
      std::vector<Bytes> live;
      for (std::size_t row = 0; row < begun.count(); ++row)
        if (begun.op[row] == Op::alloc && begun.slot[row] < heap.slot_count) live.push_back(begun.size[row]);
      EXPECT_EQ(live, (std::vector{4_MiB, 4_MiB, 10_MiB}));
      const Bytes reserved = replayed(begun, "torch.native").end_reserved;
      EXPECT_GE(reserved, cached == 1_GiB ? 60_MiB : 20_MiB) << order;
      EXPECT_LE(reserved, cached == 0_B ? 20_MiB : 80_MiB) << order;
    }
}

TEST(Beginning, StepsEndWhereTheyDid) {
  Prepared heap = late_heap();
  heap.step_ends = {2, 4};  // before the first request of its own, and at the end
  const Prepared begun = with_beginning(heap, {.cached = 1_GiB});
  ASSERT_EQ(begun.step_ends.size(), 2U);
  EXPECT_EQ(begun.size[begun.step_ends[0]], 10_MiB);
  EXPECT_EQ(begun.step_ends[1], begun.count());
}

TEST(Beginning, OnlyPoliciesThatKeepFreeMemoryAndCannotGoOnBeginAfresh) {
  const Prepared heap = late_heap();
  BegunHeap begun(heap);
  for (const char* same : {"torch.native", "torch.native{max_split_size_mb=128}", "cuda.malloc", "bound.live"})
    EXPECT_EQ(begun.for_policy(policy(same)).heap, &heap) << same;
  for (const char* other : {"torch.expandable", "fit.best", "rmm.pool", "pool.exact"}) {
    const HeapRows rows = begun.for_policy(policy(other));
    EXPECT_NE(rows.heap, &heap) << other;
    EXPECT_EQ(rows.heap->count(), heap.count() + 2) << other;
  }
}

TEST(Beginning, ReplayBeginsAsEachPolicyDoes) {
  const std::vector heaps{late_heap()};
  const std::vector<PolicySpec> specs = *parse_policies("torch.native,torch.expandable,cuda.malloc");
  const auto results = replay(heaps, specs);
  ASSERT_TRUE(results);
  EXPECT_TRUE((*results)[0].resumed);
  EXPECT_EQ((*results)[0].peak_reserved, 60_MiB);
  EXPECT_FALSE((*results)[1].resumed);
  EXPECT_EQ((*results)[1].peak_reserved, 40_MiB);  // 8 MiB between two blocks serve no request of 10
  EXPECT_EQ((*results)[2].peak_reserved, 18_MiB);
  const LateRanges ranges = late_start_ranges(*results, heaps, {});
  EXPECT_FALSE(range_of((*results)[0], ranges));
  const auto range = range_of((*results)[1], ranges);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 20_MiB);
  EXPECT_GE(range->second, 60_MiB);
  EXPECT_FALSE(range_of((*results)[2], ranges));
}

TEST(Beginning, HeapsThatDidNotBeginLateStayAsTheyAre) {
  History history;
  history.free(history.alloc(4_MiB, base));
  const std::vector heaps{history.prepared()};
  EXPECT_FALSE(any_late(heaps));
  EXPECT_EQ(begun_afresh(heaps).front().op, heaps.front().op);
  for_each_beginning(heaps, [](std::span<const Prepared>) { ADD_FAILURE(); });
}

TEST(Beginning, ARangeOfOnePercentIsNone) {
  BeginningRange range(1000_MiB);
  range.add(1010_MiB);
  EXPECT_FALSE(range.wide());
  range.add(999_MiB);
  ASSERT_TRUE(range.wide());
  EXPECT_EQ(range.wide()->second, 1010_MiB);
}

}  // namespace
}  // namespace memreel
