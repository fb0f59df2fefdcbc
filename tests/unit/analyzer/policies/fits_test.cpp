// SPDX-License-Identifier: Apache-2.0
// The policies with one growing range, and next to them cuda.malloc and the bounds.
#include <gtest/gtest.h>

#include "analyzer/replay/policies/bounds.h"
#include "analyzer/replay/policies/cuda_malloc.h"
#include "analyzer/replay/policies/fit.h"
#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::Driven;
using testing::limited_to;

template <class Fit>
using DrivenFit = Driven<Fit, GrowingRangeSettings>;

/// Slots 0 .. 6 of 1, 3, 1, 2, 1, 2, 1 MiB in a row, then gaps where 3, 2 and 2 MiB were (at 1, 5 and 8 MiB).
template <class Fit>
void make_gaps(DrivenFit<Fit>& fit) {
  const std::array<std::uint64_t, 7> mebibytes{1, 3, 1, 2, 1, 2, 1};
  for (std::uint32_t i = 0; i < mebibytes.size(); ++i) fit.alloc(i, 1_MiB * mebibytes[i]);
  for (const std::uint32_t slot : {1U, 3U, 5U}) fit.free(slot);
}

TEST(FitBest, TakesTheSmallestGapAndOfEqualOnesTheLowest) {
  DrivenFit<FitBest> fit;
  make_gaps(fit);
  fit.alloc(7, 2_MiB);
  EXPECT_EQ(fit.at(7), 5_MiB);
  fit.alloc(8, 2_MiB);
  EXPECT_EQ(fit.at(8), 8_MiB);
  fit.alloc(9, 1_MiB);
  EXPECT_EQ(fit.at(9), 11_MiB);  // the remainder of the last page
}

TEST(FitFirst, TakesTheLowestGap) {
  DrivenFit<FitFirst> fit;
  make_gaps(fit);
  fit.alloc(7, 2_MiB);
  EXPECT_EQ(fit.at(7), 1_MiB);
  fit.alloc(8, 2_MiB);
  EXPECT_EQ(fit.at(8), 5_MiB);
}

TEST(FitNext, GoesOnFromTheLastAllocationAndWrapsAround) {
  DrivenFit<FitNext> fit;
  make_gaps(fit);
  fit.alloc(7, 1_MiB);
  EXPECT_EQ(fit.at(7), 11_MiB);  // the remainder of the last page, behind the last allocation
  fit.alloc(8, 2_MiB);
  EXPECT_EQ(fit.at(8), 1_MiB);
  fit.alloc(9, 1_MiB);
  EXPECT_EQ(fit.at(9), 3_MiB);
  fit.alloc(10, 1_MiB);
  EXPECT_EQ(fit.at(10), 5_MiB);
}

TEST(GrowingRange, GrowsByPagesCountingTheFreeTail) {
  DrivenFit<FitBest> fit;
  fit.alloc(0, 1_MiB);
  EXPECT_EQ(fit->use().reserved, 2_MiB);
  fit.alloc(1, 2_MiB);
  EXPECT_EQ(fit.at(1), 1_MiB);
  EXPECT_EQ(fit->use().reserved, 4_MiB);
  EXPECT_EQ(fit->driver_calls().map, 2U);
}

TEST(GrowingRange, EmptyCacheGivesBackWholePagesAtTheEndOnly) {
  DrivenFit<FitFirst> fit;
  fit.alloc(0, 5_MiB);
  fit.alloc(1, 1_MiB);
  fit.alloc(2, 9_MiB);
  fit.free(0);
  fit.free(2);
  fit->empty_cache();
  EXPECT_EQ(fit->use().reserved, 6_MiB);
  EXPECT_EQ(fit->largest_free(), 5_MiB);
  fit.free(1);
  fit->empty_cache();
  EXPECT_EQ(fit->use().reserved, 0_B);
  EXPECT_TRUE(fit.alloc(3, 1_MiB));
  EXPECT_EQ(fit.at(3), 0_B);
}

TEST(GrowingRange, FailsWhenTheDeviceRefusesToGrow) {
  DrivenFit<FitBest> fit({}, limited_to(4_MiB));
  EXPECT_TRUE(fit.alloc(0, 3_MiB));
  EXPECT_FALSE(fit.alloc(1, 2_MiB));
  EXPECT_TRUE(fit.alloc(1, 1_MiB));
  EXPECT_EQ(fit->use().reserved, 4_MiB);
}

TEST(GrowingRange, ReusesMemoryOnlyWhenTheFreeIsCompleted) {
  DrivenFit<FitBest> fit;
  fit.alloc(0, 2_MiB);
  fit->free_requested(0, {});
  fit.alloc(1, 2_MiB);
  EXPECT_EQ(fit.at(1), 2_MiB);
  fit->free_completed(0, {});
  fit.alloc(2, 2_MiB);
  EXPECT_EQ(fit.at(2), 0_B);
}

TEST(CudaMalloc, SmallRequestsSharePagesAndLargeOnesAreRoundedUp) {
  Driven<CudaMalloc, CudaMalloc::Settings> cuda;
  cuda.alloc(0, 1_B);
  EXPECT_EQ(cuda->use().reserved, 2_MiB);
  cuda.alloc(1, 512_B);
  EXPECT_EQ(cuda->use().reserved, 2_MiB);
  EXPECT_EQ(cuda.at(1) - cuda.at(0), 512_B);
  cuda.alloc(2, 2_MiB + 1_B);
  EXPECT_EQ(cuda->use().reserved, 6_MiB);
  cuda.alloc(3, 2_MiB - 1_KiB);  // up to 2 MiB requests share pages: it fills the first page
  EXPECT_EQ(cuda.at(3) - cuda.at(0), 1_KiB);
  EXPECT_EQ(cuda->use().reserved, 6_MiB);
  EXPECT_EQ(cuda->driver_calls().malloc_shared, 2U);
}

TEST(CudaMalloc, GivesBackAPageWhenNothingIsLeftInIt) {
  Driven<CudaMalloc, CudaMalloc::Settings> cuda;
  for (std::uint32_t i = 0; i < 3; ++i) cuda.alloc(i, 100_KiB);
  cuda.free(1);
  cuda.free(0);
  EXPECT_EQ(cuda->use().reserved, 2_MiB);
  cuda.free(2);
  EXPECT_EQ(cuda->use().reserved, 0_B);
  EXPECT_EQ(cuda->driver_calls().sync, 3U);
}

TEST(CudaMalloc, OfEqualGapsTheOldestIsUsedFirst) {
  Driven<CudaMalloc, CudaMalloc::Settings> cuda;
  for (std::uint32_t i = 0; i < 7; ++i) cuda.alloc(i, 256_KiB);
  for (const std::uint32_t slot : {3U, 5U, 1U}) cuda.free(slot);
  cuda.alloc(10, 256_KiB);
  EXPECT_EQ(cuda.at(10) - cuda.at(0), 768_KiB + 1_MiB) << "what was never used is older than any hole";
  cuda.alloc(11, 256_KiB);
  EXPECT_EQ(cuda.at(11) - cuda.at(0), 768_KiB);
  cuda.alloc(12, 256_KiB);
  EXPECT_EQ(cuda.at(12) - cuda.at(0), 1280_KiB);
  EXPECT_EQ(cuda->driver_calls().free_shared, 3U);
}

TEST(BoundPages, CountsWholePagesPerAllocation) {
  Driven<BoundPages, BoundPages::Settings> pages({.page = 2_MiB});
  pages.alloc(0, 1_B);
  pages.alloc(1, 2_MiB + 1_B);
  EXPECT_EQ(pages->use().reserved, 6_MiB);
  pages.free(1, 2_MiB + 1_B);
  EXPECT_EQ(pages->use().reserved, 2_MiB);
}

TEST(BoundLive, HoldsWhatWasRequestedAndFailsBeyondTheCapacity) {
  Driven<BoundLive, BoundLive::Settings> live({}, limited_to(1000_B));
  EXPECT_TRUE(live.alloc(0, 700_B));
  EXPECT_FALSE(live.alloc(1, 301_B));
  EXPECT_TRUE(live.alloc(1, 300_B));
  EXPECT_EQ(live->use().reserved, 1000_B);
}

}  // namespace
}  // namespace memreel
