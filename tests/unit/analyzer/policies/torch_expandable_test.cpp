// SPDX-License-Identifier: Apache-2.0
// Expandable segments, rule by rule.
#include "analyzer/replay/policies/torch_expandable.h"

#include <gtest/gtest.h>

#include <vector>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/policies/torch_native.h"
#include "tests/unit/analyzer/policies/driven.h"
#include "tests/unit/analyzer/policies/driven_torch.h"

namespace memreel {
namespace {

using testing::limited_to;

/// With expandable segments unless other settings are given.
struct ExpandableTorch : testing::DrivenTorch {
  explicit ExpandableTorch(TorchSettings settings = {.expandable = true}, DeviceModel model = {})
      : DrivenTorch(settings, model) {}
};

TEST(TorchExpandable, MapsWhatTheRequestNeedsInWholeRuns) {
  ExpandableTorch torch;
  torch.alloc(0, 3_MiB);
  EXPECT_EQ(torch.reserved(), 20_MiB);
  torch.alloc(1, 38_MiB);  // 17 MiB are already there: 21 more take two runs
  EXPECT_EQ(torch.offset(1), 3_MiB);
  EXPECT_EQ(torch.reserved(), 60_MiB);
  torch.alloc(2, 512_B);
  EXPECT_EQ(torch.reserved(), 62_MiB);
  EXPECT_EQ(torch->driver_calls().map, 4U);
  EXPECT_EQ(torch->driver_calls().malloc, 0U);
}

// PyTorch compares the whole segment with a limit of the program's own; the driver refuses only what is missing.
TEST(TorchExpandable, OnlyALimitThatItWasToldRefusesTheWholeSegment) {
  constexpr std::uint32_t private_pool = 2;  // which releases nothing to make room
  for (const bool told : {false, true}) {
    ExpandableTorch torch({.expandable = true}, limited_to(80_MiB, told));
    ASSERT_TRUE(torch.alloc(0, 60_MiB, private_pool));
    torch.free(0);
    EXPECT_EQ(torch.alloc(1, 70_MiB, private_pool), !told);
    EXPECT_EQ(torch.reserved(), told ? 60_MiB : 80_MiB);
  }
}

TEST(TorchExpandable, LargeRunsHaveTheSizeOfASegment) {
  ExpandableTorch torch({.large_segment = 32_MiB, .expandable = true});
  torch.alloc(0, 3_MiB);
  EXPECT_EQ(torch.reserved(), 32_MiB);
}

TEST(TorchExpandable, SplitsLargeBlocksDownTo512Bytes) {
  ExpandableTorch torch;
  torch.alloc(0, 20_MiB - 512_B);
  EXPECT_EQ(torch.size(0), 20_MiB - 512_B);
  ExpandableTorch limited({.max_split_size = 20_MiB, .expandable = true});
  limited.alloc(0, 30_MiB);  // even above max_split_size
  EXPECT_EQ(limited.size(0), 30_MiB);
  EXPECT_EQ(limited.reserved(), 40_MiB);
}

TEST(TorchExpandable, ABlockThatCouldGrowIsTheLastChoice) {
  ExpandableTorch torch;
  torch.alloc(0, 10_MiB);
  torch.alloc(1, 6_MiB);
  torch.free(0);  // a gap of 10 MiB, and 4 MiB before unmapped addresses
  torch.alloc(2, 2_MiB);
  EXPECT_EQ(torch.at(2), torch.at(1) - 10_MiB);
}

TEST(TorchExpandable, OfTwoThatCouldGrowTheOneThatCanGrowLess) {
  ExpandableTorch torch;
  torch.alloc(0, 40_MiB);
  torch.alloc(1, 2_MiB);  // 42 of 60 MiB are taken
  torch.free(0);
  torch->empty_cache();   // unmaps the first 40 MiB
  torch.alloc(2, 5_MiB);  // from the 18 MiB at the end: nothing else is mapped
  EXPECT_EQ(torch.offset(2, 1), 2_MiB);
  torch.alloc(3, 14_MiB);  // none of its blocks is mapped: at the lowest unmapped addresses
  EXPECT_EQ(torch.at(1) - torch.at(3), 40_MiB);
  torch.alloc(4, 4_MiB);  // 6 MiB before 20 unmapped MiB win over 13 MiB before the endless rest
  EXPECT_EQ(torch.at(4) - torch.at(3), 14_MiB);
}

TEST(TorchExpandable, GrowsFromTheFreeBlockBeforeTheLowestUnmappedOneThatHasRoom) {
  ExpandableTorch torch;
  torch.alloc(0, 15_MiB);
  torch.alloc(1, 25_MiB);
  torch.alloc(2, 20_MiB);
  torch.free(1);
  torch->empty_cache();  // the run from 20 to 40 MiB; 15 to 20 stays mapped
  EXPECT_EQ(torch.reserved(), 40_MiB);
  torch.alloc(1, 26_MiB);  // no room in the 25 MiB between: behind everything else
  EXPECT_EQ(torch.offset(1), 60_MiB);
  torch.alloc(3, 25_MiB);
  EXPECT_EQ(torch.offset(3), 15_MiB);
}

TEST(TorchExpandable, MappingGoesOnAcrossFreeBlocks) {
  ExpandableTorch torch;
  for (const std::uint32_t slot : {0U, 1U, 2U}) torch.alloc(slot, slot == 2 ? 30_MiB : 20_MiB);
  torch.free(0);
  torch->empty_cache();  // 0 to 20 is unmapped
  torch.free(1);         // 20 to 40 is free
  torch.alloc(3, 35_MiB);
  EXPECT_EQ(torch.at(2) - torch.at(3), 40_MiB);
  EXPECT_EQ(torch.reserved(), 80_MiB);
}

TEST(TorchExpandable, StreamsPoolsAndSizeClassesHaveRangesOfTheirOwn) {
  ExpandableTorch torch;
  torch.alloc(0, 1_KiB, 0);
  torch.alloc(1, 1_KiB, 1);
  torch.alloc(2, 1_KiB, 2);
  torch.alloc(3, 2_MiB, 0);
  EXPECT_EQ(torch.reserved(), 2_MiB * 3 + 20_MiB);
}

TEST(TorchExpandable, ReleasingUnmapsTheWholeRunsInsideAFreeBlock) {
  ExpandableTorch torch;
  torch.alloc(0, 5_MiB);
  torch.alloc(1, 50_MiB);
  torch.alloc(2, 5_MiB);
  torch.free(1);
  torch->empty_cache();  // 5 to 55 MiB are free: the run from 20 to 40 is unmapped
  EXPECT_EQ(torch.reserved(), 40_MiB);
  EXPECT_EQ(torch->driver_calls().unmap, 1U);
  EXPECT_EQ(torch->use().free, 30_MiB);
}

TEST(TorchExpandable, ARangeOfWhichNothingIsMappedIsGivenUp) {
  ExpandableTorch torch;
  torch.alloc(0, 5_MiB);
  const Address first = torch.at(0);
  torch.free(0);
  torch->empty_cache();
  EXPECT_EQ(torch.reserved(), 0_B);
  torch.alloc(0, 5_MiB);
  EXPECT_NE(torch.at(0), first);
}

TEST(TorchExpandable, TheLimitIsCheckedAsIfSegmentsWereTaken) {
  ExpandableTorch torch({.expandable = true}, limited_to(42_MiB, true));
  EXPECT_TRUE(torch.alloc(0, 22_MiB));  // a segment of 22 MiB would fit, so two runs are mapped
  EXPECT_EQ(torch.reserved(), 40_MiB);
  EXPECT_FALSE(torch.alloc(1, 19_MiB));  // needs one MiB of memory, but 20 as a segment
  ExpandableTorch exceeding({.expandable = true}, limited_to(22_MiB, true));
  EXPECT_TRUE(exceeding.alloc(0, 22_MiB));
  EXPECT_EQ(exceeding.reserved(), 40_MiB);  // more than the limit, like the real allocator
}

TEST(TorchExpandable, WhatTheDeviceHasNoneIsMappedBeyond) {
  ExpandableTorch torch({.expandable = true}, limited_to(30_MiB));
  EXPECT_FALSE(torch.alloc(0, 22_MiB));
  EXPECT_EQ(torch.reserved(), 0_B);
  EXPECT_TRUE(torch.alloc(0, 20_MiB));
}

TEST(TorchExpandable, AFailedRequestLeavesWhatWasMappedBeforeTheRefusal) {
  ExpandableTorch torch({.expandable = true}, limited_to(90_MiB));
  torch.alloc(0, 20_MiB);
  torch.alloc(1, 20_MiB);
  torch.alloc(2, 20_MiB);
  torch.free(0);
  torch->empty_cache();
  torch.free(1);                        // 20 MiB unmapped, 20 free, 20 taken
  EXPECT_TRUE(torch.alloc(0, 30_MiB));  // maps the first 20 and merges
  EXPECT_EQ(torch.reserved(), 60_MiB);
  EXPECT_FALSE(torch.alloc(3, 45_MiB));  // 10 MiB short
  EXPECT_EQ(torch.reserved(), 60_MiB);
}

TEST(TorchExpandable, CollectingGarbagePassesItBy) {
  ExpandableTorch torch({.garbage_collection_threshold = 0.1, .expandable = true}, limited_to(200_MiB));
  for (std::uint32_t i = 1; i < 4; ++i) {
    torch.alloc(0, 20_MiB * i);
    torch.free(0);
  }
  EXPECT_EQ(torch->driver_calls().unmap, 0U);
}

TEST(TorchExpandable, ReleasingOversizeBlocksPassesItBy) {
  ExpandableTorch torch({.max_split_size = 20_MiB, .expandable = true}, limited_to(100_MiB));
  torch.alloc(0, 40_MiB);
  torch.alloc(1, 20_MiB, 1);
  torch.free(0);
  EXPECT_TRUE(torch.alloc(2, 80_MiB, 1));  // everything was released for it
  EXPECT_EQ(torch->driver_calls().unmap, 2U);
  EXPECT_EQ(torch.reserved(), 100_MiB);
}

TEST(TorchExpandable, OversizeRequestsTakeBlocksOfAboutTheirSize) {
  ExpandableTorch torch({.max_split_size = 64_MiB, .expandable = true});
  torch.alloc(0, 100_MiB);
  torch.alloc(1, 10_MiB);
  torch.free(0);
  torch.alloc(2, 70_MiB);  // 30 MiB less: not from that block, but there is room behind the other one
  EXPECT_EQ(torch.at(2) - torch.at(1), 10_MiB);
  torch.alloc(3, 90_MiB);
  EXPECT_EQ(torch.at(1) - torch.at(3), 100_MiB);
}

/// Expandable segments with an address range of `gibibytes`.
TorchSettings reserving(double gibibytes) {
  return {.expandable = true, .reserve = {.usual = ReserveSize{.is_share = false, .value = gibibytes}}};
}

// PyTorch 2.15's behavior with expandable_segments_reserve:0.1G, which is six runs of 20 MiB.
TEST(TorchExpandable, ARangeEndsWhereItsReserveDoes) {
  ExpandableTorch torch(reserving(0.1));
  torch.alloc(0, 30_MiB);
  torch.alloc(1, 30_MiB);
  EXPECT_TRUE(torch.alloc(2, 101_MiB));  // 60 MiB are left: another range
  EXPECT_GE(torch.offset(2), 120_MiB);
  torch.alloc(3, 60_MiB);
  EXPECT_EQ(torch.offset(3), 60_MiB);
  EXPECT_EQ(torch.reserved(), 240_MiB);
}

TEST(TorchExpandable, ARequestForMoreThanARangeHasFailsAsIfTheDeviceHadRefusedIt) {
  ExpandableTorch torch(reserving(0.1));
  torch.alloc(0, 30_MiB);
  torch.alloc(1, 30_MiB);
  torch.free(0);
  EXPECT_FALSE(torch.alloc(2, 120_MiB + 512_B));
  EXPECT_EQ(torch.reserved(), 40_MiB);  // the unused part was released for it
  EXPECT_TRUE(torch.alloc(3, 120_MiB));
}

TEST(TorchExpandable, StreamsOfAClassHaveItsReserve) {
  TorchSettings settings = reserving(1);
  settings.reserve.by_class["serving"] = {.is_share = false, .value = 0.02};
  settings.reserve.class_of_stream[7] = "serving";
  ExpandableTorch torch(settings);
  EXPECT_TRUE(torch.alloc(0, 100_MiB));
  EXPECT_FALSE(torch.alloc(1, 100_MiB, 1));
  EXPECT_TRUE(torch.alloc(2, 30_MiB, 1));
}

TEST(TorchExpandable, AShareIsOfTheDevicesMemoryAndAtMostAnEighthMoreThanAll) {
  TorchReserve reserve{.usual = ReserveSize::parse("0.5")};
  EXPECT_EQ(reserve.limit(0), std::nullopt);
  reserve.memory = 80_GiB;
  EXPECT_EQ(reserve.limit(0), 40_GiB);
  reserve.usual = ReserveSize::parse("2");
  EXPECT_EQ(reserve.limit(0), 90_GiB);
  reserve.usual = ReserveSize::parse("200G");
  EXPECT_EQ(reserve.limit(0), 90_GiB);
}

// PR #193400, not yet in a release.
TEST(TorchExpandable, OversizeBlocksMayServeSmallerRequestsIfAskedFor) {
  for (const bool ignores : {false, true}) {
    ExpandableTorch torch({.max_split_size = 20_MiB, .expandable = true, .expandable_ignores_oversize = ignores});
    torch.alloc(0, 40_MiB);
    torch.alloc(1, 20_MiB);
    torch.free(0);
    torch.alloc(2, 10_MiB);
    EXPECT_EQ(torch.reserved(), ignores ? 60_MiB : 80_MiB);
  }
}

}  // namespace
}  // namespace memreel
