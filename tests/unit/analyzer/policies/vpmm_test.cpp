// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/vpmm.h"

#include <gtest/gtest.h>

#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::limited_to;
using DrivenVpmm = testing::Driven<Vpmm, VpmmSettings>;

/// The worked example of docs/vpmm_spec.md: +10, +1, -10, +4, +11, in pages of 1 GiB, with 11 + x of them at the start.
/// The expected results are those of the project's own tests for the four cases.
struct WorkedExample {
  explicit WorkedExample(std::uint64_t x) : pool({.page = 1_GiB, .pages = 11 + x}) {
    const auto pages = [](std::uint64_t n) { return 1_GiB * n; };
    pool.alloc(0, pages(10));
    origin = pool.at(0);
    pool.alloc(1, pages(1));
    pool.free(0);
    pool.alloc(2, pages(4));
    pool.alloc(3, pages(11));
  }
  std::uint64_t page_of(std::uint32_t slot) const { return (pool.at(slot) - origin) / 1_GiB; }

  DrivenVpmm pool;
  Bytes origin;
};

TEST(Vpmm, CaseAFitsWithoutMoving) {
  const WorkedExample a(11);
  EXPECT_EQ(a.pool.reserved(), 22_GiB);
  EXPECT_EQ(a.page_of(1), 10U);
  EXPECT_EQ(a.page_of(2), 0U);
  EXPECT_EQ(a.page_of(3), 11U);
}

TEST(Vpmm, CaseBMovesFreePages) {
  WorkedExample b(7);
  EXPECT_EQ(b.pool.reserved(), 18_GiB);
  EXPECT_EQ(b.page_of(2), 11U);
  EXPECT_EQ(b.page_of(3), 18U);
  EXPECT_EQ(b.pool->driver_calls().map, 18U + 11U);
  EXPECT_EQ(b.pool->largest_free(), 2_GiB);  // of the 10: the 3 behind the 4 are older
}

TEST(Vpmm, CaseCMovesFreePagesBehindANewOne) {
  WorkedExample c(4);
  EXPECT_EQ(c.pool.reserved(), 16_GiB);
  EXPECT_EQ(c.page_of(2), 11U);
  EXPECT_EQ(c.page_of(3), 15U);
  EXPECT_EQ(c.pool->use().free, 0_B);
}

TEST(Vpmm, CaseDHasNewPagesBetweenFreeOnes) {
  for (const std::uint64_t x : {0U, 1U, 2U, 3U}) {
    const WorkedExample d(x);
    EXPECT_EQ(d.pool.reserved(), 16_GiB);
    EXPECT_EQ(d.page_of(2), 0U);
    EXPECT_EQ(d.page_of(3), 11U);
  }
}

TEST(Vpmm, TakesOnlyAsManyPagesAsItIsShortOf) {
  DrivenVpmm pool;
  pool.alloc(0, 5_MiB);
  EXPECT_EQ(pool.reserved(), 6_MiB);
  pool.alloc(1, 2_MiB);
  pool.free(0);
  pool.alloc(2, 10_MiB);  // 6 of it are free
  EXPECT_EQ(pool.reserved(), 12_MiB);
  EXPECT_EQ(pool->driver_calls().map, 4U + 2U + 3U);
}

TEST(Vpmm, PrefersTheSmallestRegionOfItsStream) {
  DrivenVpmm pool;
  for (std::uint32_t slot = 0; slot < 5; ++slot) pool.alloc(slot, slot == 1 ? 6_MiB : 4_MiB);
  const Bytes larger = pool.at(1), smaller = pool.at(3);
  pool.free(1);
  pool.free(3);
  pool.alloc(5, 4_MiB);
  EXPECT_EQ(pool.at(5), smaller);
  pool.alloc(6, 4_MiB);
  EXPECT_EQ(pool.at(6), larger);
}

TEST(Vpmm, HasAnotherStreamsRegionOnceTheHostHasWaitedAndItsPagesBefore) {
  DrivenVpmm pool;
  pool.alloc(0, 4_MiB, 0);
  const Bytes first = pool.at(0);
  pool.free(0);
  pool.alloc(1, 4_MiB, 1);
  EXPECT_NE(pool.at(1), first);
  EXPECT_EQ(pool.reserved(), 4_MiB);
  EXPECT_EQ(pool->driver_calls().map, 4U);
  pool.free(1);
  pool->stream_synchronized(1);
  pool.alloc(2, 4_MiB, 0);
  EXPECT_EQ(pool->driver_calls().map, 4U);
}

TEST(Vpmm, AddressesThatPagesLeftAreUsedAgainOnceTheHostHasWaited) {
  DrivenVpmm pool;
  pool.alloc(0, 4_MiB);
  pool.alloc(1, 2_MiB);
  pool.alloc(2, 4_MiB);
  const Bytes first = pool.at(0);
  pool.free(0);
  pool.free(2);
  pool.alloc(3, 8_MiB);
  EXPECT_EQ(pool.reserved(), 10_MiB);
  EXPECT_EQ(pool->driver_calls().unmap, 0U);
  pool->device_synchronized();
  EXPECT_EQ(pool->driver_calls().unmap, 2U);
  pool.alloc(4, 4_MiB);
  EXPECT_EQ(pool.at(4), first);
}

TEST(Vpmm, NeighboursOfDifferentStreamsDoNotMerge) {
  DrivenVpmm pool;
  pool.alloc(0, 4_MiB, 0);
  pool.alloc(1, 4_MiB, 1);
  pool.free(0);
  pool.free(1);
  EXPECT_EQ(pool->largest_free(), 4_MiB);
  pool.alloc(2, 8_MiB, 0);
  EXPECT_EQ(pool.reserved(), 8_MiB);
}

TEST(Vpmm, FailsWhenTheDeviceRefusesPagesAndKeepsWhatItHas) {
  DrivenVpmm pool({}, limited_to(8_MiB));
  pool.alloc(0, 4_MiB);
  pool.free(0);
  EXPECT_FALSE(pool.alloc(1, 10_MiB));
  EXPECT_EQ(pool.reserved(), 4_MiB);
  EXPECT_TRUE(pool.alloc(1, 8_MiB));
}

TEST(Vpmm, RequestsBelowAPageGoElsewhere) {
  DrivenVpmm pool;
  pool.alloc(0, 2_MiB - 1_B);
  EXPECT_EQ(pool.size(0), 2_MiB);
  pool.alloc(1, 1_KiB);
  EXPECT_EQ(pool.size(1), 1_KiB);
  EXPECT_EQ(pool.reserved(), 4_MiB);
  pool.free(0);
  pool.alloc(2, 2_MiB);
  EXPECT_EQ(pool.reserved(), 6_MiB);
}

}  // namespace
}  // namespace memreel
