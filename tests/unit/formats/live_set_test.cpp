// SPDX-License-Identifier: Apache-2.0
// What is live, step by step.
#include "formats/model/live_set.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

/// Heap 1 sees frees complete, heap 2 does not. Origins 1 and 2 lie in heap 1, origin 3 in heap 2.
Tables two_heaps() {
  Tables tables;
  tables.heaps.push_back({.level = Level::framework});
  tables.heaps.push_back({.level = Level::driver, .observes_completion = false});
  tables.origins.push_back({.heap = HeapId{1}});
  tables.origins.push_back({.heap = HeapId{1}, .stream = StreamId{1}});
  tables.origins.push_back({.heap = HeapId{2}});
  return tables;
}

class LiveSetTest : public ::testing::Test {
 protected:
  Event apply(Event event) {
    live_.apply(event);
    return event;
  }
  Event alloc(std::uint32_t id, std::uint64_t address, std::uint64_t size, std::uint32_t origin = 1) {
    return apply({.kind = EventKind::alloc,
                  .origin = OriginId{origin},
                  .allocation = AllocationId{id},
                  .address = {address},
                  .size = {size}});
  }
  Event free_at(EventKind kind, std::uint64_t address, std::uint32_t origin = 1) {
    return apply({.kind = kind, .origin = OriginId{origin}, .address = {address}});
  }
  void segment(EventKind kind, std::uint64_t address, std::uint64_t size, std::uint32_t origin = 1) {
    apply({.kind = kind, .origin = OriginId{origin}, .address = {address}, .size = {size}});
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> segments() {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> result;
    for (const LiveSegment& s : live_.snapshot().segments) result.emplace_back(s.address.value, s.size.count);
    return result;
  }

  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  Tables tables_ = two_heaps();
  LiveSet live_{tables_};
};

TEST_F(LiveSetTest, BytesAreLiveUntilTheFreeIsRequestedAndTheBlockUntilItCompletes) {
  alloc(0, 512, 100);
  alloc(1, 1024, 50);
  EXPECT_EQ(live_.heaps(), (std::vector<HeapState>{{HeapId{1}, 150_B, 0_B}}));

  const Event requested = free_at(EventKind::free_requested, 512);
  EXPECT_EQ(requested.allocation, AllocationId{0});
  EXPECT_EQ(requested.size, 100_B);
  EXPECT_EQ(live_.heaps()[0].live, 50_B);
  EXPECT_EQ(live_.at(HeapId{1}, {512}), AllocationId{0});
  EXPECT_TRUE(live_.snapshot().allocations[0].pending);

  free_at(EventKind::free_requested, 512);  // repeated: counted once
  EXPECT_EQ(live_.heaps()[0].live, 50_B);

  free_at(EventKind::free_completed, 512);
  EXPECT_EQ(live_.at(HeapId{1}, {512}), AllocationId::none);
  EXPECT_EQ(live_.snapshot().allocations.size(), 1U);
  EXPECT_EQ(live_.heaps()[0].live, 50_B);
}

TEST_F(LiveSetTest, AHeapThatDoesNotSeeCompletionsFreesAtOnce) {
  alloc(0, 512, 100, 3);
  free_at(EventKind::free_requested, 512, 3);
  EXPECT_TRUE(live_.snapshot().allocations.empty());
}

TEST_F(LiveSetTest, TheSameAddressInAnotherHeapIsAnotherAllocation) {
  alloc(0, 512, 100, 1);
  alloc(1, 512, 200, 3);
  EXPECT_EQ(free_at(EventKind::free_requested, 512, 3).allocation, AllocationId{1});
  EXPECT_EQ(live_.at(HeapId{1}, {512}), AllocationId{0});
}

TEST_F(LiveSetTest, AnAllocationEndsTheOneWhoseFreeWasNotSeen) {
  alloc(0, 512, 100);
  alloc(1, 512, 30, 2);
  EXPECT_EQ(live_.heaps()[0].live, 30_B);
  EXPECT_EQ(live_.snapshot().allocations.size(), 1U);
  const Event late = apply({.kind = EventKind::free_completed, .origin = OriginId{1}, .allocation = AllocationId{0}});
  EXPECT_EQ(late.address.value, 0U);
  EXPECT_EQ(live_.at(HeapId{1}, {512}), AllocationId{1});
}

TEST_F(LiveSetTest, AnUnknownFreeStaysAsItIs) {
  const Event free = apply({.kind = EventKind::free_requested, .origin = OriginId{1}, .address = {99}, .size = 7_B});
  EXPECT_EQ(free.allocation, AllocationId::none);
  EXPECT_EQ(free.size, 7_B);
  EXPECT_TRUE(live_.heaps().empty());
}

TEST_F(LiveSetTest, SegmentsStayApartButMappedNeighboursGrowTogether) {
  segment(EventKind::segment_alloc, 0, 10);
  segment(EventKind::segment_alloc, 10, 10);
  EXPECT_EQ(segments(), (Ranges{{0, 10}, {10, 10}}));
  segment(EventKind::segment_map, 100, 10);
  segment(EventKind::segment_map, 120, 10);
  segment(EventKind::segment_map, 110, 10);
  EXPECT_EQ(segments(), (Ranges{{0, 10}, {10, 10}, {100, 30}}));
  segment(EventKind::segment_map, 130, 10, 2);  // on another stream
  EXPECT_EQ(segments(), (Ranges{{0, 10}, {10, 10}, {100, 30}, {130, 10}}));
  EXPECT_EQ(live_.heaps()[0].reserved, 60_B);
}

TEST_F(LiveSetTest, UnmappingCutsSegments) {
  segment(EventKind::segment_map, 100, 50);
  segment(EventKind::segment_unmap, 110, 10);
  EXPECT_EQ(segments(), (Ranges{{100, 10}, {120, 30}}));
  segment(EventKind::segment_unmap, 90, 40);
  EXPECT_EQ(segments(), (Ranges{{130, 20}}));
  EXPECT_EQ(live_.heaps()[0].reserved, 20_B);
  segment(EventKind::segment_unmap, 130, 20, 3);  // another heap's
  EXPECT_EQ(live_.heaps()[0].reserved, 20_B);
  segment(EventKind::segment_map, 120, 20);  // covers half of the existing one
  EXPECT_EQ(segments(), (Ranges{{120, 30}}));
  EXPECT_EQ(live_.heaps()[0].reserved, 30_B);
}

TEST_F(LiveSetTest, SizesThatReachBeyondTheLastAddressAreCut) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  segment(EventKind::segment_alloc, most - 10, 1000);
  EXPECT_EQ(live_.heaps()[0].reserved, 10_B);
  segment(EventKind::segment_free, 0, most);
  EXPECT_EQ(live_.heaps()[0].reserved, 0_B);
}

TEST_F(LiveSetTest, ASnapshotRestoresTheState) {
  alloc(0, 512, 100);
  alloc(1, 1024, 50, 2);
  free_at(EventKind::free_requested, 512);
  segment(EventKind::segment_map, 0, 4096);
  LiveSet other(tables_);
  other.add(live_.snapshot());
  EXPECT_EQ(other.snapshot(), live_.snapshot());
  EXPECT_EQ(other.heaps(), live_.heaps());
  EXPECT_EQ(other.at(HeapId{1}, {1024}), AllocationId{1});
}

}  // namespace
}  // namespace memreel
