// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/history/levels.h"

#include <gtest/gtest.h>

#include <vector>

#include "analyzer/analysis/history/lifetimes.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

// PyTorch on a device whose driver was recorded too.
class Levels : public ::testing::Test {
 protected:
  std::vector<EventKind> kinds() {
    const auto kinds = build_.trace().events.kinds();
    return {kinds.begin(), kinds.end()};
  }
  HeapHistory history(HeapId heap) {
    for (const HeapHistory& h : heap_histories(build_.trace()))
      if (h.heap == heap) return h;
    return {};
  }

  TraceBuilder build_;
  HeapId torch_{1};
  HeapId driver_ = build_.heap("cuda.driver", Level::driver, 0);
  HeapId mapped_ = build_.heap("cuda.mapped", Level::driver, 0);
  OriginId of_torch_ = build_.origin(torch_);
  OriginId of_driver_ = build_.origin(driver_);
  OriginId of_mapped_ = build_.origin(mapped_);
};

TEST_F(Levels, WhatAFrameworkAllocatesFromIsItsSegment) {
  const AllocationId segment = build_.alloc(of_driver_, {0x1000000}, 2_MiB, build_.stack({"malloc@a.cpp:1"}));
  const AllocationId tensor = build_.alloc(of_torch_, {0x1000200}, 4_KiB);
  build_.free(tensor);
  build_.free_requested(segment);

  EXPECT_EQ(tie_levels(build_.trace()), 1U);

  EXPECT_EQ(kinds(), (std::vector{EventKind::segment_alloc, EventKind::alloc, EventKind::free_requested,
                                  EventKind::free_completed, EventKind::segment_free}));
  EXPECT_EQ(history(torch_).peak_reserved, 2_MiB);
  EXPECT_EQ(history(torch_).end_reserved, 0_B);
  EXPECT_EQ(history(torch_).peak_live, 4_KiB);
  EXPECT_EQ(history(driver_).allocations, 0U);
  EXPECT_NE(build_.trace().events.stack(0), StackId::none);
  EXPECT_EQ(lifetimes(build_.trace()).size(), 1U);
  EXPECT_EQ(lifetimes(build_.trace())[0].requested, 2U);
}

TEST_F(Levels, OtherMemoryStaysTheDrivers) {
  build_.alloc(of_driver_, {0x5000000}, 8_MiB);  // a library's workspace
  build_.alloc(of_driver_, {0x1000000}, 2_MiB);
  build_.alloc(of_torch_, {0x1000000}, 4_KiB);
  EXPECT_EQ(tie_levels(build_.trace()), 1U);
  EXPECT_EQ(history(driver_).end_live, 8_MiB);
  EXPECT_EQ(history(torch_).end_reserved, 2_MiB);
}

TEST_F(Levels, AnAddressThatIsUsedAgainIsAnotherRegion) {
  build_.free_requested(build_.alloc(of_driver_, {0x1000000}, 2_MiB));  // not sub-allocated
  build_.alloc(of_driver_, {0x1000000}, 4_MiB);
  build_.alloc(of_torch_, {0x1300000}, 4_KiB);
  EXPECT_EQ(tie_levels(build_.trace()), 1U);
  EXPECT_EQ(history(driver_).allocations, 1U);
  EXPECT_EQ(history(torch_).peak_reserved, 4_MiB);
}

TEST_F(Levels, OtherDevicesAreNotTied) {
  build_.alloc(build_.origin(build_.heap("cuda.driver", Level::driver, 1)), {0x1000000}, 2_MiB);
  build_.alloc(of_torch_, {0x1000000}, 4_KiB);
  EXPECT_EQ(tie_levels(build_.trace()), 0U);
}

TEST_F(Levels, MappingsAndWhatTheyAreOfAreSegmentsToo) {
  build_.trace().tables.pools.push_back({.name = build_.string("physical")});
  const OriginId created = build_.origin(driver_, 0, PoolId{1});
  build_.alloc(created, {0x77}, 20_MiB);
  build_.event(EventKind::segment_map, of_mapped_, {0x1000000}, 20_MiB);
  build_.alloc(created, {0x78}, 20_MiB);
  build_.event(EventKind::segment_map, of_mapped_, {Address{0x1000000} + 20_MiB}, 20_MiB);
  build_.alloc(created, {0x79}, 2_MiB);  // for something else
  build_.event(EventKind::segment_map, of_mapped_, {0x9000000}, 2_MiB);
  build_.free(build_.alloc(of_torch_, {0x1000000}, 30_MiB));
  build_.event(EventKind::segment_unmap, of_mapped_, {0x1000000}, 40_MiB);

  EXPECT_EQ(tie_levels(build_.trace()), 2U);

  EXPECT_EQ(history(torch_).peak_reserved, 40_MiB);
  EXPECT_EQ(history(torch_).end_reserved, 0_B);
  EXPECT_EQ(history(driver_).end_live, 2_MiB);
  EXPECT_EQ(history(mapped_).end_reserved, 2_MiB);
}

TEST_F(Levels, WhatAHeapTellsOfItselfIsLeftOutBelow) {
  build_.alloc(of_driver_, {0x1000000}, 2_MiB);
  build_.event(EventKind::segment_alloc, of_torch_, {0x1000000}, 2_MiB);
  build_.free(build_.alloc(of_torch_, {0x1000000}, 4_KiB));
  build_.alloc(of_driver_, {0x2000000}, 4_MiB);
  build_.event(EventKind::segment_alloc, of_torch_, {0x2000000}, 2_MiB);  // of a part, which is different
  build_.alloc(of_driver_, {0x4000000}, 6_MiB);
  build_.alloc(of_torch_, {0x4000000}, 6_MiB);  // not reported

  EXPECT_EQ(tie_levels(build_.trace()), 1U);

  EXPECT_EQ(history(driver_).peak_live, 10_MiB);
  EXPECT_EQ(history(torch_).peak_reserved, 4_MiB);
}

TEST_F(Levels, MappingsThatAHeapTellsOfAreLeftOutWithTheirMemory) {
  build_.trace().tables.pools.push_back({.name = build_.string("physical")});
  const OriginId created = build_.origin(driver_, 0, PoolId{1});
  for (const std::uint64_t i : {std::uint64_t{0}, std::uint64_t{1}}) {
    build_.alloc(created, {0x77 + i}, 20_MiB);
    build_.event(EventKind::segment_map, of_mapped_, Address{0x1000000} + 20_MiB * i, 20_MiB);
  }
  build_.event(EventKind::segment_map, of_torch_, {0x1000000}, 40_MiB);
  build_.event(EventKind::segment_unmap, of_mapped_, {0x1000000}, 40_MiB);
  build_.event(EventKind::segment_unmap, of_torch_, {0x1000000}, 40_MiB);

  EXPECT_EQ(tie_levels(build_.trace()), 2U);

  EXPECT_EQ(history(torch_).peak_reserved, 40_MiB);
  EXPECT_EQ(history(torch_).end_reserved, 0_B);
  EXPECT_EQ(history(driver_).peak_live, 0_B);
  EXPECT_EQ(history(mapped_).peak_reserved, 0_B);
}

// As a flight recorder restates them: at the time of the first piece, before the others were created.
TEST_F(Levels, AdjacentMappingsThatBecameOneTakeAllTheirMemoryAlong) {
  build_.trace().tables.pools.push_back({.name = build_.string("physical")});
  const OriginId of_created = build_.origin(driver_, 0, PoolId{1});
  build_.alloc(of_created, {0x1}, 20_MiB);
  build_.alloc(of_created, {0x5}, 2_MiB);
  build_.event(EventKind::segment_map, of_mapped_, {0x10000000}, 60_MiB);
  build_.event(EventKind::segment_map, of_torch_, {0x10000000}, 60_MiB);
  build_.alloc(of_created, {0x2}, 20_MiB);
  build_.alloc(of_created, {0x3}, 20_MiB);
  build_.alloc(of_created, {0x4}, 2_MiB);  // mapped nowhere
  EXPECT_EQ(tie_levels(build_.trace()), 1U);
  EXPECT_EQ(history(driver_).end_live, 4_MiB);
  EXPECT_EQ(history(mapped_).end_reserved, 0_B);
  EXPECT_EQ(history(torch_).end_reserved, 60_MiB);
}

}  // namespace
}  // namespace memreel
