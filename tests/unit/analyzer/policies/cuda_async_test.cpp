// SPDX-License-Identifier: Apache-2.0
// The rules of cuda.async, one by one.
#include "analyzer/replay/policies/cuda_async.h"

#include <gtest/gtest.h>

#include "analyzer/replay/registry.h"

namespace memreel {
namespace {

constexpr CudaAsyncSettings keep{.release_threshold = CudaAsyncSettings::never};
constexpr CudaAsyncSettings keep_ordered{.release_threshold = CudaAsyncSettings::never, .opportunistic = false};

/// A pool and three streams, with (pool, stream) pairs 0, 1 and 2.
class Pool {
 public:
  explicit Pool(const CudaAsyncSettings& settings = keep, std::optional<Bytes> capacity = {})
      : device_(capacity ? DeviceModel{DeviceModel::Kind::capacity, *capacity} : DeviceModel{}, {}),
        policy_(heap(), settings, device_) {}

  /// Its address; none when the allocation failed.
  std::optional<Bytes> alloc(std::uint32_t slot, Bytes size, std::uint32_t stream = 0) {
    if (!policy_.allocate(slot, size, stream)) return std::nullopt;
    return policy_.extent_of(slot).address - Address{};
  }
  void free(std::uint32_t slot) { policy_.free(slot, {}); }
  Bytes reserved() const { return policy_.use().reserved; }
  CudaAsync* operator->() { return &policy_; }

 private:
  static Prepared heap() {
    Prepared heap;
    heap.slot_count = 40;
    for (std::uint32_t i = 0; i < 3; ++i) heap.pool_streams.push_back({.stream = StreamId{i}, .stream_handle = i});
    return heap;
  }

  SimulatedDevice device_;
  CudaAsync policy_;
};

TEST(CudaAsync, GrowsByChunksAndBlocksLieAcrossThem) {
  Pool pool;
  EXPECT_EQ(pool.alloc(0, 1_B), 0_B);
  EXPECT_EQ(pool.reserved(), 32_MiB);
  EXPECT_EQ(pool.alloc(1, 1_MiB), 512_B);
  EXPECT_EQ(pool.alloc(2, 31_MiB), 1_MiB + 512_B);
  EXPECT_EQ(pool.reserved(), 64_MiB);
  EXPECT_EQ(pool.alloc(3, 65_MiB), 32_MiB + 512_B);
  EXPECT_EQ(pool.reserved(), 128_MiB);
  EXPECT_EQ(pool->driver_calls().map, 4U);
}

TEST(CudaAsync, TakesTheBestFitAndOfEqualOnesTheOneFreedFirst) {
  Pool pool;
  for (std::uint32_t i = 0; i < 8; ++i) pool.alloc(i, 4_MiB);
  for (const std::uint32_t slot : {5U, 1U, 3U}) pool.free(slot);
  EXPECT_EQ(pool.alloc(10, 4_MiB), 20_MiB);
  EXPECT_EQ(pool.alloc(11, 1_MiB), 4_MiB);
  EXPECT_EQ(pool.alloc(12, 3_MiB), 5_MiB) << "the rest of a block is the better fit";
}

TEST(CudaAsync, AStreamUsesItsOwnListBeforeTheCommonOne) {
  Pool pool;
  for (std::uint32_t i = 0; i < 8; ++i) pool.alloc(i, 4_MiB);
  pool.free(1);
  pool->device_synchronized();  // now in the common list
  pool.free(3);
  pool.free(4);
  EXPECT_EQ(pool.alloc(10, 4_MiB), 12_MiB) << "not the better fit at 4 MiB";
}

TEST(CudaAsync, ListsAreMergedOnlyWhenNothingElseFits) {
  Pool pool;
  for (std::uint32_t i = 0; i < 8; ++i) pool.alloc(i, 4_MiB);
  pool.free(1);
  pool->device_synchronized();
  pool.free(2);
  EXPECT_EQ(pool->largest_free(), 4_MiB);
  EXPECT_EQ(pool.alloc(10, 8_MiB), 4_MiB);
  EXPECT_EQ(pool.reserved(), 32_MiB);
}

TEST(CudaAsync, MovesTheMemoryOfIdleChunksBeforeItGrows) {
  Pool pool;
  for (std::uint32_t i = 0; i < 8; ++i) pool.alloc(i, 64_MiB);
  for (const std::uint32_t slot : {0U, 2U, 4U, 6U}) pool.free(slot);
  EXPECT_EQ(pool.alloc(10, 128_MiB), 512_MiB) << "behind all others";
  EXPECT_EQ(pool.reserved(), 512_MiB);
  EXPECT_EQ(pool->driver_calls().unmap, 4U);
  EXPECT_EQ(pool.alloc(11, 64_MiB), 128_MiB) << "the highest holes lost their memory";
  EXPECT_EQ(pool.alloc(12, 64_MiB), 0_B);
  EXPECT_EQ(pool.reserved(), 512_MiB);
  EXPECT_EQ(pool.alloc(13, 64_MiB), 384_MiB) << "a hole without memory gets new memory";
  EXPECT_EQ(pool.reserved(), 576_MiB);
}

TEST(CudaAsync, GapsWithoutAWholeChunkCanNotBeMoved) {
  Pool pool;
  for (std::uint32_t i = 0; i < 8; ++i) pool.alloc(i, 16_MiB);
  for (const std::uint32_t slot : {0U, 2U, 4U, 6U}) pool.free(slot);
  EXPECT_EQ(pool.alloc(10, 32_MiB), 128_MiB);
  EXPECT_EQ(pool.reserved(), 160_MiB);
}

TEST(CudaAsync, GivesBackIdleChunksWhenTheHostWaits) {
  Pool pool({.release_threshold = 0_B});
  for (std::uint32_t i = 0; i < 6; ++i) pool.alloc(i, 48_MiB);
  pool.free(1);
  EXPECT_EQ(pool.reserved(), 288_MiB);
  pool->device_synchronized();
  EXPECT_EQ(pool.reserved(), 256_MiB) << "48 to 96 MiB: one whole chunk";
  EXPECT_EQ(pool.alloc(10, 10_MiB), 48_MiB);
}

TEST(CudaAsync, KeepsAsMuchAsTheThresholdSays) {
  Pool pool({.release_threshold = 100_MiB});
  for (std::uint32_t i = 0; i < 8; ++i) pool.alloc(i, 48_MiB);
  for (std::uint32_t i = 0; i < 8; ++i) pool.free(i);
  pool->device_synchronized();
  EXPECT_EQ(pool.reserved(), 96_MiB);
}

TEST(CudaAsync, AWaitThatEndsNothingGivesNothingBack) {
  Pool pool({.release_threshold = 0_B});
  pool.alloc(0, 64_MiB);
  pool.alloc(1, 1_MiB);
  pool.free(0);
  EXPECT_EQ(pool.alloc(2, 96_MiB), 65_MiB) << "for which all that was freed became common";
  pool.free(2);
  EXPECT_EQ(pool.alloc(3, 200_MiB), 65_MiB);
  const Bytes before = pool.reserved();
  pool->device_synchronized();
  EXPECT_EQ(pool.reserved(), before);
}

TEST(CudaAsync, AWaitForAStreamConcernsWhatThatStreamKnows) {
  Pool pool({.release_threshold = 0_B});
  pool.alloc(0, 64_MiB, 0);
  pool.free(0);
  pool->stream_synchronized(1);
  EXPECT_EQ(pool.reserved(), 64_MiB);
  pool->stream_waits(0, 1);
  pool->stream_synchronized(1);
  EXPECT_EQ(pool.reserved(), 0_B);
}

TEST(CudaAsync, EmptyCacheTrimsEvenBelowTheThreshold) {
  Pool pool;
  pool.alloc(0, 64_MiB);
  pool.alloc(1, 1_MiB);
  pool.free(0);
  pool->empty_cache();
  EXPECT_EQ(pool.reserved(), 32_MiB);
}

TEST(CudaAsync, OpportunisticReuseTakesWhatAnotherStreamFreed) {
  Pool pool;
  pool.alloc(0, 40_MiB, 0);
  pool.free(0);
  EXPECT_EQ(pool.alloc(1, 40_MiB, 1), 0_B);
}

TEST(CudaAsync, WithoutItOnlyEventsAndWaitsPassMemoryOn) {
  Pool pool(keep_ordered);
  pool.alloc(0, 40_MiB, 0);
  pool.free(0);
  EXPECT_EQ(pool.alloc(1, 40_MiB, 1), 40_MiB);
  pool->stream_waits(0, 1);
  EXPECT_EQ(pool.alloc(2, 40_MiB, 1), 0_B);
  pool.free(2);
  pool->device_synchronized();
  EXPECT_EQ(pool.alloc(3, 40_MiB, 2), 0_B);
}

TEST(CudaAsync, EventsReachThroughStreams) {
  Pool pool(keep_ordered);
  pool.alloc(0, 40_MiB, 0);
  pool.free(0);
  pool->stream_waits(0, 1);
  pool->stream_waits(1, 2);
  EXPECT_EQ(pool.alloc(1, 40_MiB, 2), 0_B);
}

TEST(CudaAsync, ABlockMergedAfterTheEventIsNotCovered) {
  Pool pool(keep_ordered);
  for (std::uint32_t i = 0; i < 8; ++i) pool.alloc(i, 4_MiB);
  pool.free(5);
  pool->stream_waits(0, 1);
  pool.free(4);
  EXPECT_EQ(pool.alloc(10, 4_MiB, 1), 32_MiB);
}

TEST(CudaAsync, EventsCanBeIgnored) {
  CudaAsyncSettings settings = keep_ordered;
  settings.follow_events = false;
  Pool pool(settings);
  pool.alloc(0, 40_MiB, 0);
  pool.free(0);
  pool->stream_waits(0, 1);
  EXPECT_EQ(pool.alloc(1, 40_MiB, 1), 40_MiB);
}

TEST(CudaAsync, InternalDependenciesAreForWantOfMemory) {
  Pool pool(keep_ordered, 64_MiB);
  pool.alloc(0, 40_MiB, 0);
  pool.free(0);
  EXPECT_EQ(pool.alloc(1, 40_MiB, 1), 0_B);
  CudaAsyncSettings without = keep_ordered;
  without.internal_dependencies = false;
  Pool strict(without, 64_MiB);
  strict.alloc(0, 40_MiB, 0);
  strict.free(0);
  EXPECT_EQ(strict.alloc(1, 40_MiB, 1), std::nullopt);
}

TEST(CudaAsync, FailsWhenChunksAreFreeButNotWhole) {
  Pool pool(keep, 96_MiB);
  pool.alloc(0, 30_MiB);
  pool.alloc(1, 30_MiB);
  pool.alloc(2, 30_MiB);
  pool.free(0);
  pool.free(2);
  EXPECT_EQ(pool.alloc(3, 60_MiB), std::nullopt);
  EXPECT_EQ(pool.alloc(3, 30_MiB), 0_B);
}

// A damaged trace can request any number of bytes; an entry for each 32 MiB chunk would exhaust memory.
TEST(CudaAsync, NoDeviceHasSixteenTebibytes) {
  Pool pool;
  EXPECT_FALSE(pool.alloc(0, Bytes{~std::uint64_t{0}}));
  EXPECT_FALSE(pool.alloc(0, 17_GiB * 1024));
  EXPECT_EQ(pool.alloc(0, 1_B), 0_B);
  EXPECT_FALSE(pool.alloc(1, 16_GiB * 1024));
}

TEST(CudaAsync, ParametersAreChecked) {
  EXPECT_TRUE(bind_policy({"cuda.async", {{"release_threshold", "max"}}}));
  EXPECT_TRUE(bind_policy({"cuda.async", {{"release_threshold", "64MiB"}, {"opportunistic", "false"}}}));
  EXPECT_FALSE(bind_policy({"cuda.async", {{"release_threshold", "all"}}}));
  EXPECT_FALSE(bind_policy({"cuda.async", {{"opportunistic", "1"}}}));
  EXPECT_FALSE(bind_policy({"cuda.async", {{"threshold", "0"}}}));
}

}  // namespace
}  // namespace memreel
