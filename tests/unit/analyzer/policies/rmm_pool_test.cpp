// SPDX-License-Identifier: Apache-2.0
// rmm.pool: each rule by hand, the cases of its issues, and random programs compared with the plain lists of RMM
// itself.
#include "analyzer/replay/policies/rmm_pool.h"

#include <gtest/gtest.h>

#include "analyzer/replay/replay.h"
#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/policies/driven.h"
#include "tests/unit/analyzer/policies/rmm_reference.h"

namespace memreel {
namespace {

using testing::DrivenOnStreams;
using testing::limited_to;
using testing::ReferencePool;
using Pool = DrivenOnStreams<RmmPool>;

/// A pool that has `size` bytes and can't grow.
RmmPoolSettings fixed(Bytes size) { return {.initial = size, .maximum = size}; }

TEST(RmmPool, RoundsTo256BytesAndCutsExactly) {
  Pool pool(fixed(1_KiB));
  EXPECT_TRUE(pool.alloc(0, 1_B));
  EXPECT_EQ(pool.size(0), 256_B);
  EXPECT_TRUE(pool.alloc(1, 257_B));
  EXPECT_EQ(pool.size(1), 512_B);
  EXPECT_EQ(pool.at(1) - pool.at(0), 256_B);
  EXPECT_EQ(pool->largest_free(), 256_B);
}

TEST(RmmPool, NothingIsGivenToWhoAsksForNothing) {
  Pool pool(RmmPoolSettings{.initial = 0_B});
  EXPECT_TRUE(pool.alloc(0, 0_B));
  EXPECT_EQ(pool.size(0), 0_B);
  EXPECT_EQ(pool.reserved(), 0_B);
  pool.free(0);
  EXPECT_EQ(pool->use().allocated, 0_B);
}

TEST(RmmPool, TakesTheSmallestBlockThatFitsAndOfEqualOnesTheLowest) {
  Pool pool(fixed(12_KiB));
  for (std::uint32_t i = 0; i < 6; ++i) pool.alloc(i, i % 2 == 0 ? 1_KiB : i == 1 ? 3_KiB : 2_KiB);
  const Address lower = pool.at(3), higher = pool.at(5);
  pool.alloc(6, 2_KiB);  // the remainder
  for (const std::uint32_t slot : {5U, 1U, 3U}) pool.free(slot);
  pool.alloc(7, 2_KiB);
  EXPECT_EQ(pool.at(7), lower);
  pool.alloc(8, 2_KiB);
  EXPECT_EQ(pool.at(8), higher);
}

TEST(RmmPool, DoublesWithoutAMaximum) {
  Pool pool(RmmPoolSettings{.initial = 0_B});
  pool.alloc(0, 1_MiB);
  EXPECT_EQ(pool.reserved(), 1_MiB);
  pool.alloc(1, 256_KiB);
  EXPECT_EQ(pool.reserved(), 2_MiB);
  pool.alloc(2, 5_MiB);
  EXPECT_EQ(pool.reserved(), 7_MiB);
  EXPECT_EQ(pool->driver_calls().malloc, 3U);
}

TEST(RmmPool, GrowsByHalfOfWhatIsLeftBelowAMaximum) {
  Pool pool(RmmPoolSettings{.initial = 2_MiB, .maximum = 10_MiB});
  EXPECT_EQ(pool.reserved(), 2_MiB);
  pool.alloc(0, 2_MiB);
  pool.alloc(1, 1_MiB);
  EXPECT_EQ(pool.reserved(), 6_MiB);
  EXPECT_FALSE(pool.alloc(2, 5_MiB)) << "4 MiB are left";
  EXPECT_TRUE(pool.alloc(2, 4_MiB));
  EXPECT_EQ(pool.reserved(), 10_MiB);
}

TEST(RmmPool, TriesHalfAsMuchWhenTheDeviceRefuses) {
  Pool pool(RmmPoolSettings{.initial = 16_MiB}, limited_to(21_MiB));
  pool.alloc(0, 16_MiB);
  EXPECT_TRUE(pool.alloc(1, 3_MiB));  // 16, 8, then 4
  EXPECT_EQ(pool.reserved(), 20_MiB);
  EXPECT_FALSE(pool.alloc(2, 2_MiB));
  EXPECT_TRUE(pool.alloc(2, 1_MiB));
}

TEST(RmmPool, BeginsWithHalfOfTheDevice) {
  EXPECT_EQ(Pool(RmmPoolSettings{}, limited_to(10_MiB)).reserved(), 5_MiB);
  EXPECT_EQ(Pool(RmmPoolSettings{}).reserved(), 0_B);
}

TEST(RmmPool, FailsForGoodWhenTheDeviceRefusesTheInitialMemory) {
  Pool pool(RmmPoolSettings{.initial = 2_MiB}, limited_to(1_MiB));
  EXPECT_FALSE(pool.alloc(0, 256_B));
  EXPECT_EQ(pool.reserved(), 0_B);
}

TEST(RmmPool, PiecesOfTheDeviceDoNotMerge) {
  Pool pool(RmmPoolSettings{.initial = 0_B});
  pool.alloc(0, 1_MiB);
  pool.alloc(1, 1_MiB);
  pool.free(0);
  pool.free(1);
  EXPECT_EQ(pool->largest_free(), 1_MiB);
  pool.alloc(0, 2_MiB);
  EXPECT_EQ(pool.reserved(), 4_MiB);
}

TEST(RmmPool, NeverShrinks) {
  Pool pool(RmmPoolSettings{.initial = 0_B});
  pool.alloc(0, 1_MiB);
  pool.free(0);
  pool->empty_cache();
  EXPECT_EQ(pool.reserved(), 1_MiB);
}

TEST(RmmPool, ABlockOfAnotherStreamIsCutAndItsRestStaysThere) {
  Pool pool(fixed(12_KiB));
  pool.alloc(0, 4_KiB, 0);
  pool.alloc(1, 4_KiB, 1);
  pool.alloc(2, 4_KiB, 0);
  const Address middle = pool.at(1);
  pool.free(1);  // for stream 1
  pool.alloc(3, 1_KiB, 0);
  EXPECT_EQ(pool.at(3), middle);
  // The remainder did not move to stream 0: it does not merge with memory freed there.
  pool.free(3);
  pool.alloc(4, 2_KiB, 1);
  EXPECT_EQ(pool.at(4), middle + 1_KiB);
  EXPECT_EQ(pool->largest_free(), 1_KiB);
}

TEST(RmmPool, AFreedBlockBelongsToTheStreamThatFreedIt) {
  Pool pool(fixed(8_KiB));
  pool.alloc(0, 4_KiB, 0);
  pool.alloc(1, 4_KiB, 0);
  const Address freed_on_0 = pool.at(1);
  pool.free_on(1, 0);
  pool.free(1);
  EXPECT_EQ(pool->largest_free(), 4_KiB) << "in two lists";
  pool.alloc(2, 4_KiB, 0);
  EXPECT_EQ(pool.at(2), freed_on_0) << "the higher one, but of its own list";
}

TEST(RmmPool, ListsMergeOneByOneWhenNothingFits) {
  Pool pool(fixed(8_KiB));
  for (std::uint32_t i = 0; i < 4; ++i) pool.alloc(i, 2_KiB, i % 3);
  const Address begin = pool.at(0);
  for (std::uint32_t i = 0; i < 4; ++i) pool.free(i);
  EXPECT_EQ(pool->largest_free(), 2_KiB);
  EXPECT_TRUE(pool.alloc(4, 4_KiB, 2));
  EXPECT_EQ(pool.at(4), begin + 4_KiB) << "the lists of streams 2 and 0 are enough: there, blocks 2 and 3 touch";
  EXPECT_TRUE(pool.alloc(5, 4_KiB, 1));
  EXPECT_EQ(pool.at(5), begin);
  EXPECT_EQ(pool->use().free, 0_B);
}

TEST(RmmPool, TheDefaultStreamHasTwoNames) {
  Pool pool(fixed(4_KiB), {}, {0, 1});
  pool.alloc(0, 2_KiB, 0);
  pool.alloc(1, 2_KiB, 1);
  pool.free(0);
  pool.free(1);
  EXPECT_EQ(pool->largest_free(), 4_KiB) << "one list, so the two blocks merged";
}

TEST(RmmPool, MemoryIsReusedOnlyWhenTheFreeIsCompleted) {
  Pool pool(RmmPoolSettings{.initial = 0_B});
  pool.alloc(0, 1_MiB);
  pool->free_requested(0, {});
  EXPECT_EQ(pool->use().allocated, 0_B);
  EXPECT_EQ(pool->use().free, 0_B);
  pool->free_completed(0, {});
  EXPECT_EQ(pool->largest_free(), 1_MiB);
}

// https://github.com/rapidsai/rmm/issues/1957
TEST(RmmPool, Issue1957TheMaximumIsOutOfReachAfterASmallStart) {
  Pool small_start(RmmPoolSettings{.initial = 256_B, .maximum = 1_KiB, .reclaim = false});
  EXPECT_FALSE(small_start.alloc(0, 1_KiB));
  Pool no_start(RmmPoolSettings{.initial = 0_B, .maximum = 1_KiB, .reclaim = false});
  EXPECT_TRUE(no_start.alloc(0, 1_KiB));
}

TEST(RmmPool, Issue1957IsSolvedByGivingBackWhatIsUnused) {
  Pool pool(RmmPoolSettings{.initial = 256_B, .maximum = 1_KiB, .reclaim = true});
  EXPECT_TRUE(pool.alloc(0, 1_KiB));
  EXPECT_EQ(pool.reserved(), 1_KiB);
  EXPECT_EQ(pool->driver_calls().free, 1U);
}

TEST(RmmPool, GivesBackOnlyWholePiecesAndOnlyAsManyAsNeeded) {
  Pool pool(RmmPoolSettings{.initial = 1_KiB, .maximum = 4_KiB, .reclaim = true});
  pool.alloc(0, 1_KiB);
  pool.alloc(1, 1536_B);  // half of the remaining memory
  pool.alloc(2, 768_B);
  pool.alloc(3, 512_B);
  EXPECT_EQ(pool.reserved(), 4096_B - 256_B);
  for (const std::uint32_t slot : {0U, 1U, 3U}) pool.free(slot);
  EXPECT_TRUE(pool.alloc(4, 1792_B));
  EXPECT_GE(pool->driver_calls().free, 1U);
  EXPECT_LE(pool.reserved(), 4_KiB);
  EXPECT_FALSE(pool.alloc(5, 8_KiB)) << "more than the maximum: nothing is given back for it";
}

/// One run of a program in hundredths of a pool: what is allocated with which (pool, stream), and (size 0) what is
/// freed.
struct Step {
  std::uint32_t slot = 0;
  std::uint64_t size = 0;
  std::uint32_t pool_stream = 0;
};
const std::vector<Step> one_run{{0, 17, 0}, {0}, {1, 57, 1}, {2, 4, 1}, {3, 4, 0}, {4, 24, 1}, {4}, {1}, {3}, {2}};

/// The number of successful runs out of three in sequence; the failed request, if any.
std::uint32_t good_runs(Pool& pool, Step& failed, bool one_stream) {
  for (std::uint32_t run = 0; run < 3; ++run) {
    for (const Step& step : one_run) {
      if (step.size == 0) {
        pool.free(step.slot);
      } else if (!pool.alloc(step.slot, 1_MiB * step.size, one_stream ? 0 : step.pool_stream)) {
        failed = step;
        return run;
      }
    }
  }
  return 3;
}

// The pattern of https://github.com/rapidsai/rmm/issues/1969, whose log is not public: a pool that may not grow, a
// program that frees everything after each run, two successful runs, and a third that fails with a third of the pool
// free. Memory freed by a run stays in the lists of its streams, so each run finds the memory split differently.
TEST(RmmPool, Issue1969TwoRunsGoWellAndTheThirdFails) {
  Pool pool(fixed(100_MiB));
  Step failed;
  EXPECT_EQ(good_runs(pool, failed, false), 2U);
  EXPECT_EQ(failed.size, 24U);
  EXPECT_EQ(pool->use().free, 35_MiB);
  EXPECT_LT(pool->largest_free(), 24_MiB);
  Pool with_one_stream(fixed(100_MiB));
  EXPECT_EQ(good_runs(with_one_stream, failed, true), 3U);
}

/// The same random program in the policy and the reference: every answer, address and reserved byte is the same.
void compare(const RmmPoolSettings& settings, DeviceModel model, std::uint64_t seed, std::uint64_t most) {
  const std::vector<std::uint64_t> handles{7, 0, 1, 9};
  Pool pool(settings, model, handles);
  ReferencePool reference(settings, model);
  synthetic::Random random(seed);
  struct Live {
    Bytes size;
    std::uint64_t stream = 0;
  };
  // The reference sees streams in order of first use; the policy numbers them by (pool, stream) pair.
  for (std::uint32_t pool_stream = 0; pool_stream < handles.size(); ++pool_stream) {
    ASSERT_EQ(pool.alloc(pool_stream, 256_B, pool_stream), reference.allocate(256_B, handles[pool_stream]).has_value());
  }
  std::map<std::uint32_t, Live> live;
  for (int i = 0; i < 3000; ++i) {
    const auto slot = static_cast<std::uint32_t>(10 + random.below(100));
    if (const auto found = live.find(slot); found != live.end()) {
      const auto pool_stream = static_cast<std::uint32_t>(random.below(handles.size()));
      const bool elsewhere = random.chance(4);
      reference.free(pool.at(slot), found->second.size, elsewhere ? handles[pool_stream] : found->second.stream);
      elsewhere ? pool.free_on(pool_stream, slot) : pool.free(slot);
      live.erase(found);
    } else {
      const Bytes size{random.log_uniform(1, most)};
      const auto pool_stream = static_cast<std::uint32_t>(random.below(handles.size()));
      const auto expected = reference.allocate(size, handles[pool_stream]);
      ASSERT_EQ(pool.alloc(slot, size, pool_stream), expected.has_value()) << "operation " << i;
      if (!expected) continue;
      ASSERT_EQ(pool.at(slot), *expected) << "operation " << i;
      live[slot] = {size, handles[pool_stream]};
    }
    ASSERT_EQ(pool.reserved(), reference.reserved()) << "operation " << i;
  }
}

TEST(RmmPool, PlacesAsRmmsOwnListsDo) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    compare({.initial = 0_B}, {}, seed, 8U << 20U);
    compare({.initial = 16_MiB}, {}, seed, 8U << 20U);
    compare({}, limited_to(64_MiB), seed, 4U << 20U);
    compare({.initial = 0_B}, limited_to(20_MiB), seed, 2U << 20U);
    compare({.initial = 32_MiB, .maximum = 32_MiB}, {}, seed, 2U << 20U);
    compare({.initial = 256_B, .maximum = 24_MiB}, {}, seed, 1U << 20U);
    compare({.initial = 256_B, .maximum = 24_MiB, .reclaim = true}, {}, seed, 4U << 20U);
    compare({.initial = 64_KiB, .maximum = 64_KiB}, {}, seed, 2048);  // many equal sizes
  }
}

TEST(RmmPool, ParametersAreStrict) {
  const auto refused = [](const char* spec, const char* mention) {
    const auto result = replay({}, *parse_policies(spec));
    ASSERT_FALSE(result) << spec;
    EXPECT_NE(result.error().message().find(mention), std::string::npos) << result.error().message();
  };
  refused("rmm.pool{initial=100}", "multiple of 256");
  refused("rmm.pool{initial=2GiB,maximum=1GiB}", "initial");
  refused("rmm.pool{maximum=half}", "none");
  refused("rmm.pool{reclaim=yes}", "true, false");
  refused("rmm.pool{release=26.13}", "26.10");
  refused("rmm.pool{stream_order=0//1}", "0/3/1/2");
  refused("rmm.arena{size=1KiB}", "1MiB");
  refused("rmm.binning{smallest=8MiB}", "smallest");
  EXPECT_TRUE(replay({}, *parse_policies("rmm.pool{initial=256,maximum=1024,reclaim=true},rmm.arena{size=2MiB}")));
}

}  // namespace
}  // namespace memreel
