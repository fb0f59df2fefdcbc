// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/gmlake.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::limited_to;
using DrivenGmlake = testing::Driven<Gmlake, GmlakeSettings>;

/// Stitches blocks of 10 MiB and larger.
constexpr GmlakeSettings low_limit{.frag_limit = 10_MiB};

/// Slots 0 .. 4 of 20, 30, 20, 40, 20 MiB, each in its own segment; the three in the middle are freed.
void make_free_blocks(DrivenGmlake& lake) {
  const std::vector<std::uint64_t> mebibytes{20, 30, 20, 40, 20};
  for (std::uint32_t slot = 0; slot < mebibytes.size(); ++slot) lake.alloc(slot, 1_MiB * mebibytes[slot]);
  for (const std::uint32_t slot : {1U, 2U, 3U}) lake.free(slot);
}

std::vector<Extent> pieces_of(DrivenGmlake& lake, std::uint32_t slot) {
  std::vector<Extent> pieces;
  lake->for_each_piece(slot, [&](const Extent& piece) { pieces.push_back(piece); });
  return pieces;
}

TEST(Gmlake, RoundsLargeRequestsToPagesAndSplitsDownToAPage) {
  DrivenGmlake lake;
  lake.alloc(0, 1_MiB + 1_B);
  EXPECT_EQ(lake.size(0), 2_MiB);
  EXPECT_EQ(lake.reserved(), 20_MiB);
  lake.alloc(1, 18_MiB);  // all the remaining memory
  EXPECT_EQ(lake.reserved(), 20_MiB);
  lake.alloc(2, 11_MiB);
  EXPECT_EQ(lake.size(2), 12_MiB);
  EXPECT_EQ(lake.reserved(), 32_MiB);
  EXPECT_EQ(lake->driver_calls().map, 16U);
  lake.alloc(3, 1_KiB);
  EXPECT_EQ(lake.size(3), 1_KiB);
  EXPECT_EQ(lake->driver_calls().malloc, 1U);
}

TEST(Gmlake, StitchesTheLargestFreeBlocksAndCutsTheLast) {
  DrivenGmlake lake(low_limit);
  make_free_blocks(lake);
  const std::uint64_t mapped = lake->driver_calls().map;
  lake.alloc(5, 56_MiB);  // 40 and 16 of the 30
  EXPECT_EQ(lake.reserved(), 130_MiB);
  const auto pieces = pieces_of(lake, 5);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].size, 40_MiB);
  EXPECT_EQ(pieces[1].size, 16_MiB);
  EXPECT_EQ(lake->driver_calls().map - mapped, 28U);
  EXPECT_EQ(lake->use().free, 34_MiB);
  EXPECT_EQ(lake->largest_free(), 20_MiB);
  lake.alloc(6, 14_MiB);  // the remainder of the 30 is free
  EXPECT_EQ(lake.reserved(), 130_MiB);
}

TEST(Gmlake, DoesNotStitchBelowTheLimitNorWhatIsNotEnough) {
  DrivenGmlake lake({.frag_limit = 60_MiB});
  make_free_blocks(lake);
  lake.alloc(5, 50_MiB);
  EXPECT_EQ(lake.reserved(), 180_MiB);
  lake.alloc(6, 92_MiB);  // 90 are free
  EXPECT_EQ(lake.reserved(), 272_MiB);
}

TEST(Gmlake, DoesNotStitchASingleBlock) {
  DrivenGmlake lake(low_limit);
  lake.alloc(0, 20_MiB);
  lake.free(0);
  lake.alloc(1, 22_MiB);
  EXPECT_EQ(lake.reserved(), 42_MiB);
}

TEST(Gmlake, UsesAStitchedBlockAgainWithoutMapping) {
  DrivenGmlake lake(low_limit);
  make_free_blocks(lake);
  lake.alloc(5, 60_MiB);
  const Bytes at = lake.at(5);
  lake.free(5);
  EXPECT_EQ(lake->use().free, 90_MiB);
  const std::uint64_t mapped = lake->driver_calls().map;
  lake.alloc(6, 50_MiB);  // its front
  EXPECT_EQ(lake.at(6), at);
  EXPECT_EQ(lake.size(6), 50_MiB);
  EXPECT_EQ(lake->use().free, 40_MiB);
  EXPECT_EQ(lake->driver_calls().map, mapped);
}

TEST(Gmlake, LendsThePagesOfAStitchedBlockAndWaitsForAllOfThem) {
  DrivenGmlake lake(low_limit);
  make_free_blocks(lake);
  lake.alloc(5, 60_MiB);
  const Bytes at = lake.at(5);
  lake.free(5);
  lake.alloc(6, 40_MiB);  // a block that fits is preferred to a stitched one
  EXPECT_EQ(pieces_of(lake, 6).size(), 1U);
  lake.alloc(7, 44_MiB);  // so that one can't be used, and another is stitched
  EXPECT_EQ(lake.reserved(), 130_MiB);
  EXPECT_NE(lake.at(7), at);
  lake.free(6);
  lake.free(7);
  lake.alloc(8, 60_MiB);
  EXPECT_EQ(lake.at(8), at);
}

TEST(Gmlake, DoesNotUseAStitchedBlockForAMuchSmallerRequest) {
  GmlakeSettings settings = low_limit;
  settings.reuse_limit = 1.1;
  DrivenGmlake lake(settings);
  make_free_blocks(lake);
  lake.alloc(5, 60_MiB);
  const Bytes at = lake.at(5);
  lake.free(5);
  lake.alloc(6, 50_MiB);
  EXPECT_NE(lake.at(6), at);
  lake.free(6);
  lake.alloc(7, 58_MiB);
  EXPECT_EQ(lake.at(7), at);
}

TEST(Gmlake, LevelsSayWhenItStitches) {
  for (const unsigned level : {0U, 1U, 2U}) {
    SCOPED_TRACE(level);
    GmlakeSettings settings = low_limit;
    settings.level = level;
    DrivenGmlake lake(settings, limited_to(190_MiB));
    make_free_blocks(lake);
    lake.alloc(5, 56_MiB);
    EXPECT_EQ(lake.reserved(), level == 0 ? 130_MiB : 186_MiB);
    if (level == 0) continue;
    lake.alloc(6, 60_MiB);  // the device has 4 MiB left, unless the 90 free MiB are returned to it
    EXPECT_EQ(lake.reserved(), level == 1 ? 186_MiB : 156_MiB);
    EXPECT_EQ(pieces_of(lake, 6).size(), level == 1 ? 2U : 1U);
  }
}

TEST(Gmlake, GivesSegmentsBackAndUnmapsWhatWasStitchedOverThem) {
  DrivenGmlake lake(low_limit);
  make_free_blocks(lake);
  lake.alloc(5, 60_MiB);
  lake.free(5);
  lake->empty_cache();
  EXPECT_EQ(lake.reserved(), 40_MiB);
  EXPECT_EQ(lake->driver_calls().unmap, 45U + 30U);
  lake.alloc(6, 60_MiB);
  EXPECT_EQ(lake.reserved(), 100_MiB);
}

TEST(Gmlake, AStitchedBlockInUseSurvivesTheLossOfASegmentUntilItIsFreed) {
  DrivenGmlake lake(low_limit);
  make_free_blocks(lake);
  lake.alloc(5, 80_MiB);  // 40, 30 and 10
  const Bytes at = lake.at(5);
  lake.free(5);
  lake.alloc(6, 64_MiB);  // its front: 40 and 24
  EXPECT_EQ(lake.at(6), at);
  lake->empty_cache();  // the third segment is released
  EXPECT_EQ(lake.reserved(), 110_MiB);
  EXPECT_EQ(lake.size(6), 64_MiB);
  lake.free(6);
  EXPECT_EQ(lake->use().free, 70_MiB);
  lake.alloc(7, 64_MiB);
  EXPECT_NE(lake.at(7), at);
  EXPECT_EQ(lake.reserved(), 110_MiB);
}

TEST(Gmlake, StreamsAndPoolsAreNotStitchedTogether) {
  DrivenGmlake lake(low_limit);
  for (const std::uint32_t pool_stream : {0U, 1U, 2U}) lake.alloc(pool_stream, 20_MiB, pool_stream);
  for (const std::uint32_t pool_stream : {0U, 1U, 2U}) lake.free(pool_stream);
  lake.alloc(3, 40_MiB, 0);
  EXPECT_EQ(lake.reserved(), 100_MiB);
}

TEST(Gmlake, PagesCanBeStitchedOnlyWhenTheDeviceIsDoneWithThem) {
  DrivenGmlake lake(low_limit);
  for (std::uint32_t slot = 0; slot < 2; ++slot) lake.alloc(slot, 20_MiB);
  lake->free_requested(0, {});
  lake.free(1);
  lake.alloc(2, 40_MiB);
  EXPECT_EQ(lake.reserved(), 80_MiB);
  lake->free_completed(0, {});
  lake.alloc(3, 40_MiB);
  EXPECT_EQ(lake.reserved(), 80_MiB);
}

}  // namespace
}  // namespace memreel
