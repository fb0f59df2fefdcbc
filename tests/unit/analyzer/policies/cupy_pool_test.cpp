// SPDX-License-Identifier: Apache-2.0
// cupy.pool: each rule by hand. Recordings of the real one: tests/e2e/test_pools.py.
#include "analyzer/replay/policies/cupy_pool.h"

#include <gtest/gtest.h>

#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::limited_to;
using Cupy = testing::DrivenOnStreams<CupyPool>;

TEST(CupyPool, TakesJustTheRoundedSizeFromTheDevice) {
  Cupy pool({});
  EXPECT_TRUE(pool.alloc(0, 1_B));
  EXPECT_TRUE(pool.alloc(1, 5_MiB + 1_B));
  EXPECT_EQ(pool.size(0), 512_B);
  EXPECT_EQ(pool.reserved(), 5_MiB + 1_KiB);
  EXPECT_TRUE(pool.alloc(2, 0_B));
  EXPECT_EQ(pool.size(2), 0_B);
  EXPECT_EQ(pool.reserved(), 5_MiB + 1_KiB);
}

TEST(CupyPool, TakesTheSmallestChunkThatFitsCutExactly) {
  Cupy pool({});
  pool.alloc(0, 8_KiB);
  pool.alloc(1, 4_KiB);
  const Address small = pool.at(1);
  pool.free(0);
  pool.free(1);
  pool.alloc(2, 1_KiB);
  EXPECT_EQ(pool.at(2), small);
  pool.alloc(3, 3_KiB);  // the remainder
  EXPECT_EQ(pool.at(3), small + 1_KiB);
  EXPECT_EQ(pool.reserved(), 12_KiB);
}

TEST(CupyPool, StreamsShareNothing) {
  Cupy pool({});
  pool.alloc(0, 1_MiB, 0);
  pool.free(0);
  pool.alloc(1, 1_MiB, 1);
  EXPECT_EQ(pool.reserved(), 2_MiB);
  pool.alloc(2, 1_MiB, 0);
  EXPECT_EQ(pool.reserved(), 2_MiB);
}

TEST(CupyPool, NeighboursMergeWithinWhatTheDeviceGave) {
  Cupy pool({});
  pool.alloc(0, 3_KiB);
  pool.free(0);
  for (std::uint32_t slot = 1; slot <= 3; ++slot) pool.alloc(slot, 1_KiB);
  for (const std::uint32_t slot : {1U, 3U, 2U}) pool.free(slot);
  EXPECT_EQ(pool->largest_free(), 3_KiB);
}

TEST(CupyPool, GivesBackOnlyWholeSegmentsAndOnlyWhenAsked) {
  Cupy pool({});
  pool.alloc(0, 2_MiB);
  pool.alloc(1, 1_MiB, 1);
  pool.free(0);
  pool.alloc(2, 1_MiB);  // the front of the first
  pool.free(1);
  EXPECT_EQ(pool.reserved(), 3_MiB);
  pool->empty_cache();
  EXPECT_EQ(pool.reserved(), 2_MiB);
  pool.free(2);
  pool->empty_cache();
  EXPECT_EQ(pool.reserved(), 0_B);
}

TEST(CupyPool, GivesBackWhatIsUnusedWhenMemoryIsShort) {
  for (const bool by_limit : {true, false}) {
    Cupy pool(by_limit ? CupyPoolSettings{.limit = 4_MiB} : CupyPoolSettings{},
              by_limit ? DeviceModel{} : limited_to(4_MiB));
    pool.alloc(0, 3_MiB, 0);
    pool.free(0);
    EXPECT_TRUE(pool.alloc(1, 2_MiB, 1));
    EXPECT_EQ(pool.reserved(), 2_MiB);
    EXPECT_FALSE(pool.alloc(2, 3_MiB));
    EXPECT_EQ(pool.reserved(), 2_MiB);
  }
}

TEST(CupyPool, OfEqualChunksItTakesTheRecordedOne) {
  Cupy pool({});
  const auto three_free = [&] {
    for (std::uint32_t slot = 0; slot < 3; ++slot) pool.alloc(slot, 1_MiB);
    for (std::uint32_t slot = 0; slot < 3; ++slot) pool.free(slot);
  };
  pool->guide({});
  three_free();
  pool.alloc(5, 1_MiB);
  const Address lowest = pool.at(5);
  pool.free(5);
  pool->guide(lowest + 2_MiB);
  pool.alloc(5, 1_MiB);
  EXPECT_EQ(pool.at(5), lowest + 2_MiB);
  pool->guide(lowest + 1_KiB);  // there is no chunk
  pool.alloc(6, 1_MiB);
  EXPECT_EQ(pool.at(6), lowest);
}

}  // namespace
}  // namespace memreel
