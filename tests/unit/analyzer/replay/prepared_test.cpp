// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/prepare.h"

#include <gtest/gtest.h>

#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::base;
using testing::History;

TEST(Prepare, RequestAndCompletionTogetherAreOneFree) {
  History history;
  const auto a = history.alloc(1_MiB);
  const auto b = history.alloc(2_MiB);
  history.free(a);
  history.free_requested(b);
  history.alloc(3_MiB);
  history.free_completed(b);
  const Prepared heap = history.prepared();
  EXPECT_EQ(heap.op, (std::vector{Op::alloc, Op::alloc, Op::free, Op::free_requested, Op::alloc, Op::free_completed}));
  EXPECT_EQ(heap.size[2], 1_MiB);
  EXPECT_EQ(heap.event[4], 5U);
}

TEST(Prepare, SlotsAreReusedOnceCompletedAndNotBefore) {
  History history;
  const auto a = history.alloc(1_MiB);
  history.free_requested(a);
  history.alloc(1_MiB);
  history.free_completed(a);
  history.alloc(1_MiB);
  const Prepared heap = history.prepared();
  EXPECT_EQ(heap.slot, (std::vector<std::uint32_t>{0, 0, 1, 0, 0}));
  EXPECT_EQ(heap.slot_count, 2U);
}

TEST(Prepare, AHeapThatDoesNotObserveCompletionCompletesAtTheRequest) {
  History history;
  history.trace().tables.heaps[1].observes_completion = false;
  history.free_requested(history.alloc(1_MiB));
  EXPECT_EQ(history.prepared().op, (std::vector{Op::alloc, Op::free}));
}

/// A driver recording has page-locked memory next to the device's; replayed, it would take the device's space.
TEST(Prepare, HostMemoryOfTheDriverIsNoDeviceMemory) {
  History history;
  const auto a = history.alloc(1_MiB);
  Heap& heap = history.trace().tables.heaps[1];
  heap.level = Level::driver;
  EXPECT_EQ(prepare(history.trace()).size(), 1U);
  heap.device = -1;
  EXPECT_TRUE(prepare(history.trace()).empty());
  heap.level = Level::framework;  // an allocator of host memory is treated like any other
  history.free(a);
  EXPECT_EQ(prepare(history.trace()).size(), 1U);
}

TEST(Prepare, FreesKnowTheirStream) {
  History history;
  const auto a = history.alloc(1_MiB, {}, 7);
  const auto b = history.alloc(1_MiB, {}, 8);
  history.free(a);
  Event elsewhere = history.trace().events[history.trace().events.begin_of(b)];
  elsewhere.kind = EventKind::free_requested;
  elsewhere.origin = history.trace().events.origin(0);
  history.trace().events.push_back(elsewhere);
  EXPECT_EQ(history.prepared().pool_stream, (std::vector<std::uint32_t>{0, 1, 0, 0}));
}

/// The remainder of the pool's first block would have served its second request.
History two_requests_in_a_pool(std::uint32_t pool) {
  History history;
  history.segment_alloc(base, 2_MiB, pool);
  history.alloc(1_KiB, base, 0, pool);
  history.segment_alloc(base + 2_MiB, 2_MiB, pool);
  history.alloc(1_KiB, base + 2_MiB, 0, pool);
  return history;
}

bool never_splits(History& history) { return history.prepared().pool_streams.back().no_split; }

TEST(Prepare, PoolsThatNeverSplitAreTold) {
  History history = two_requests_in_a_pool(1);
  EXPECT_TRUE(never_splits(history));
}

TEST(Prepare, APoolThatSplitOnceSplits) {
  History history = two_requests_in_a_pool(1);
  history.alloc(1_KiB, base + 1_KiB, 0, 1);
  EXPECT_FALSE(never_splits(history));
}

TEST(Prepare, TheDefaultPoolSplits) {
  History history = two_requests_in_a_pool(0);
  EXPECT_FALSE(never_splits(history));
}

TEST(Prepare, WhatBothKindsOfPoolWouldHaveDoneTellsNothing) {
  History history;
  history.segment_alloc(base, 2_MiB, 1);
  history.alloc(1_MiB, base, 0, 1);
  history.segment_alloc(base + 2_MiB, 12_MiB, 1);
  history.alloc(12_MiB, base + 2_MiB, 0, 1);
  EXPECT_FALSE(never_splits(history));
}

/// The larger segment has 20 MiB left, a better fit than the 22 MiB that are free.
TEST(Prepare, ALargerBlockThanWhatWasLeftIsPassedOverByNoPoolThatSplits) {
  History history;
  const Address large = base + 32_MiB;
  history.segment_alloc(base, 22_MiB, 1);
  const auto first = history.alloc(22_MiB, base, 0, 1);
  history.segment_alloc(large, 32_MiB, 1);
  history.alloc(12_MiB, large, 0, 1);
  history.free(first);
  history.alloc(2_MiB, base, 0, 1);
  EXPECT_TRUE(never_splits(history));
}

TEST(Prepare, DoubleAndUnknownFreesAreIgnored) {
  History history;
  const auto a = history.alloc(1_MiB);
  history.free(a);
  history.free(a);
  history.trace().events.push_back({.kind = EventKind::free_requested, .origin = OriginId{1}});
  EXPECT_EQ(history.prepared().op, (std::vector{Op::alloc, Op::free}));
}

TEST(Prepare, ACompletionWithoutARequestFreesAltogether) {
  History history;
  history.free_completed(history.alloc(1_MiB));
  EXPECT_EQ(history.prepared().op, (std::vector{Op::alloc, Op::free}));
}

TEST(Prepare, PoolsEndAndAreEmptiedByThemselves) {
  History history;
  history.alloc(1_MiB, {}, 0, 1);
  history.pool_end(1);
  history.empty_cache(1);
  history.empty_cache();
  const Prepared heap = history.prepared();
  EXPECT_EQ(heap.op, (std::vector{Op::alloc, Op::pool_ended, Op::empty_pool, Op::empty_cache}));
  EXPECT_EQ(heap.pool_stream, (std::vector<std::uint32_t>{0, 0, 0, 0}));
  EXPECT_EQ(heap.pool_streams[0].pool, PoolId{1});
}

TEST(Prepare, SynchronizationReachesEveryHeapOfTheDevice) {
  History history;
  history.alloc(1_MiB, {}, 7);
  history.alloc(1_MiB, {}, 9);
  history.synchronized(7, sync_device);
  history.synchronized(9, sync_stream);
  history.synchronized(7, sync_edge + index(history.stream(9)));
  const Prepared heap = history.prepared();
  EXPECT_EQ(heap.op,
            (std::vector{Op::alloc, Op::alloc, Op::device_synchronized, Op::stream_synchronized, Op::stream_waits}));
  EXPECT_EQ(heap.pool_stream, (std::vector<std::uint32_t>{0, 1, 0, 1, 0}));
  EXPECT_EQ(heap.slot[4], 1U) << "the lane that is waited for";
}

TEST(Prepare, StreamsAndPoolsMakePoolStreams) {
  History history;
  history.alloc(1_MiB);
  history.alloc(1_MiB, {}, 0x77);
  history.alloc(1_MiB, {}, 0x77, 1);
  history.alloc(1_MiB, {}, 0x77);
  const Prepared heap = history.prepared();
  EXPECT_EQ(heap.pool_stream, (std::vector<std::uint32_t>{0, 1, 2, 1}));
  EXPECT_EQ(heap.pool_streams[2].stream_handle, 0x77U);
  EXPECT_EQ(heap.pool_streams[2].pool, PoolId{1});
}

TEST(Prepare, HeapsWithoutRequestsAreLeftOut) {
  History history;
  history.segment_alloc(Address{0x1000}, 2_MiB);
  EXPECT_TRUE(prepare(history.trace()).empty());
}

// reserved 40 MiB; a request for 30 MiB failed: the limit is below 70 MiB.
TEST(ImpliedCapacity, IsJustBelowWhatWasRefused) {
  History history;
  history.segment_alloc(Address{0x1000'0000}, 40_MiB);
  history.alloc(40_MiB, Address{0x1000'0000});
  history.failed(30_MiB);
  EXPECT_EQ(history.prepared().implied_capacity, 70_MiB - 1_B);
}

TEST(ImpliedCapacity, ReleasesBeforeAGrantMeanThatItWasRefusedAtFirst) {
  History history;
  history.segment_alloc(Address{0x1000'0000}, 40_MiB);
  history.free(history.alloc(40_MiB, Address{0x1000'0000}));
  history.segment_free(Address{0x1000'0000}, 40_MiB);
  history.segment_alloc(Address{0x1000'0000}, 60_MiB);
  history.alloc(60_MiB, Address{0x1000'0000});
  EXPECT_EQ(history.prepared().implied_capacity, 100_MiB - 1_B);
}

TEST(ImpliedCapacity, ReleasesThatTheProgramAskedForMeanNothing) {
  History history;
  history.segment_alloc(Address{0x1000'0000}, 40_MiB);
  history.free(history.alloc(40_MiB, Address{0x1000'0000}));
  history.empty_cache();
  history.segment_free(Address{0x1000'0000}, 40_MiB);
  history.segment_alloc(Address{0x1000'0000}, 60_MiB);
  history.alloc(60_MiB, Address{0x1000'0000});
  EXPECT_EQ(history.prepared().implied_capacity, std::nullopt);
}

// Another process freed its memory in between.
TEST(ImpliedCapacity, IsNeverLessThanWhatWasGranted) {
  History history;
  history.failed(30_MiB);
  history.segment_alloc(Address{0x1000'0000}, 40_MiB);
  history.alloc(40_MiB, Address{0x1000'0000});
  EXPECT_EQ(history.prepared().implied_capacity, 40_MiB);
}

}  // namespace
}  // namespace memreel
