// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/history/lifetimes.h"

#include <gtest/gtest.h>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

TEST(Lifetimes, NameTheEventsOfEachAllocation) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const AllocationId a = build.alloc(origin, {0x1000}, 512_B);
  const AllocationId b = build.alloc(origin, {0x2000}, 1_KiB);
  build.free_requested(a);
  build.free_requested(b);
  build.free_completed(a);

  const std::vector<Lifetime> lives = lifetimes(build.trace());

  ASSERT_EQ(lives.size(), 2U);
  EXPECT_EQ(lives[0].begin, 0U);
  EXPECT_EQ(lives[0].requested, 2U);
  EXPECT_EQ(lives[0].completed, 4U);
  EXPECT_EQ(lives[1].completed, never);
}

TEST(Lifetimes, AnAllocationLivesFromItsEventToTheFree) {
  const Lifetime life{.begin = 3, .requested = 5};
  EXPECT_FALSE(life.live_after(3));
  EXPECT_TRUE(life.live_after(4));
  EXPECT_TRUE(life.live_after(5));
  EXPECT_FALSE(life.live_after(6));
}

TEST(HeapHistories, AddUpEachHeapByItself) {
  TraceBuilder build;
  const OriginId first = build.origin(HeapId{1});
  const OriginId second = build.origin(build.heap("torch.cuda", Level::framework, 1));
  build.event(EventKind::segment_alloc, first, {0x100000}, 2_MiB);
  const AllocationId a = build.alloc(first, {0x100000}, 1_MiB);
  build.alloc(second, {0x900000}, 3_MiB);
  build.free(a);
  build.alloc(first, {0x100000}, 1_KiB);
  build.event(EventKind::alloc_failed, first, {}, 5_GiB);
  build.event(EventKind::segment_free, first, {0x100000}, 2_MiB);

  const std::vector<HeapHistory> histories = heap_histories(build.trace());

  ASSERT_EQ(histories.size(), 2U);
  EXPECT_EQ(histories[0].allocations, 2U);
  EXPECT_EQ(histories[0].failures, 1U);
  EXPECT_EQ(histories[0].peak_live, 1_MiB);
  EXPECT_EQ(histories[0].peak_live_event, 1U);
  EXPECT_EQ(histories[0].end_live, 1_KiB);
  EXPECT_EQ(histories[0].end_live_allocations, 1U);
  EXPECT_EQ(histories[0].peak_reserved, 2_MiB);
  EXPECT_EQ(histories[0].end_reserved, 0_B);
  EXPECT_EQ(histories[1].peak_live, 3_MiB);
}

TEST(HeapHistories, ThePeakOfReservedMemoryIsWhereMostIsLive) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.event(EventKind::segment_alloc, origin, {0x100000}, 8_MiB);
  const AllocationId first = build.alloc(origin, {0x100000}, 1_MiB);
  build.free(first);
  build.alloc(origin, {0x100000}, 5_MiB);  // event 4
  build.event(EventKind::segment_unmap, origin, {0x700000}, 1_MiB);
  build.alloc(origin, {0x600000}, 1_MiB);  // more live, but less reserved

  const HeapHistory history = heap_histories(build.trace())[0];

  EXPECT_EQ(history.peak_reserved, 8_MiB);
  EXPECT_EQ(history.peak_growth_event, 0U);
  EXPECT_EQ(history.peak_reserved_event, 4U);
  EXPECT_EQ(history.live_at_peak_reserved, 5_MiB);
}

TEST(HeapHistories, SurviveReleasesOfWhatWasNeverSeen) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.event(EventKind::segment_alloc, origin, {0x100000}, 2_MiB);
  build.event(EventKind::segment_free, origin, {0x900000}, 20_MiB);
  EXPECT_EQ(heap_histories(build.trace())[0].end_reserved, 0_B);
}

}  // namespace
}  // namespace memreel
