// SPDX-License-Identifier: Apache-2.0
// pool.exact on top of the two allocators that it supports.
#include "analyzer/replay/policies/pool_exact.h"

#include <gtest/gtest.h>

#include "analyzer/replay/policies/cuda_malloc.h"
#include "analyzer/replay/policies/torch_native.h"
#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::DrivenOnStreams;
using testing::limited_to;
using OnCuda = DrivenOnStreams<ExactPool<CudaMalloc>, CudaMalloc::Settings>;
using OnTorch = DrivenOnStreams<ExactPool<TorchNative<>>, TorchSettings>;

TEST(PoolExact, ReusesTheBlockOfTheSameSizeThatWasFreedLast) {
  OnCuda pool(CudaMalloc::Settings{});
  for (std::uint32_t i = 0; i < 3; ++i) pool.alloc(i, 3_MiB);
  const Address last = pool.at(0);
  pool.free(2);
  pool.free(0);
  EXPECT_TRUE(pool.alloc(3, 3_MiB - 100_B)) << "the same after rounding";
  EXPECT_EQ(pool.at(3), last);
  EXPECT_EQ(pool->driver_calls().malloc, 3U);
  EXPECT_EQ(pool->driver_calls().free, 0U);
}

TEST(PoolExact, ABlockOfAnotherSizeIsOfNoUse) {
  OnCuda pool(CudaMalloc::Settings{});
  pool.alloc(0, 4_MiB);
  pool.free(0);
  pool.alloc(1, 3_MiB);
  EXPECT_EQ(pool.reserved(), 8_MiB);
  EXPECT_EQ(pool->use().free, 4_MiB);
  EXPECT_EQ(pool->largest_free(), 4_MiB);
}

TEST(PoolExact, StreamsDoNotShare) {
  OnCuda pool(CudaMalloc::Settings{});
  pool.alloc(0, 2_MiB, 0);
  pool.free(0);
  pool.alloc(1, 2_MiB, 1);
  EXPECT_EQ(pool.reserved(), 4_MiB);
}

TEST(PoolExact, EmptyCacheGivesEverythingBack) {
  OnTorch pool(TorchSettings{});
  pool.alloc(0, 30_MiB);
  pool.alloc(1, 40_MiB);
  pool.free(0);
  EXPECT_EQ(pool.reserved(), 70_MiB);
  pool->empty_cache();
  EXPECT_EQ(pool.reserved(), 40_MiB);
  EXPECT_EQ(pool->use().free, 0_B);
}

TEST(PoolExact, WhatIsKeptGivesWayWhenTheAllocatorBehindFails) {
  OnTorch pool(TorchSettings{}, limited_to(100_MiB));
  pool.alloc(0, 60_MiB);
  pool.free(0);
  EXPECT_TRUE(pool.alloc(1, 80_MiB));
  EXPECT_EQ(pool.reserved(), 80_MiB);
  EXPECT_FALSE(pool.alloc(2, 60_MiB));
  EXPECT_EQ(pool->use().allocated, 80_MiB);
}

TEST(PoolExact, MemoryIsKeptOnlyWhenTheFreeIsCompleted) {
  OnCuda pool(CudaMalloc::Settings{});
  pool.alloc(0, 2_MiB);
  pool->free_requested(0, {});
  EXPECT_EQ(pool->use().allocated, 0_B);
  pool.alloc(1, 2_MiB);
  EXPECT_EQ(pool.reserved(), 4_MiB);
  pool->free_completed(0, {});
  pool.alloc(2, 2_MiB);
  EXPECT_EQ(pool.reserved(), 4_MiB);
}

}  // namespace
}  // namespace memreel
