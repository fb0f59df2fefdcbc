// SPDX-License-Identifier: Apache-2.0
// rmm.arena: each rule by hand, and random programs compared with the plain sets of RMM itself.
#include "analyzer/replay/policies/rmm_arena.h"

#include <gtest/gtest.h>

#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/policies/driven.h"
#include "tests/unit/analyzer/policies/rmm_reference.h"

namespace memreel {
namespace {

using testing::DrivenOnStreams;
using testing::limited_to;
using testing::ReferenceArena;
using Arena = DrivenOnStreams<RmmArena>;

RmmArenaSettings of(Bytes size) { return {.size = size}; }
Address at(Bytes offset) { return Address{} + offset; }

TEST(RmmArena, TakesAllItsMemoryAtOnce) {
  Arena arena(of(8_MiB));
  EXPECT_EQ(arena.reserved(), 8_MiB);
  EXPECT_EQ(arena->use().free, 8_MiB);
  EXPECT_EQ(arena->largest_free(), 8_MiB);
  EXPECT_EQ(Arena(RmmArenaSettings{}, limited_to(10_MiB)).reserved(), 5_MiB);
}

TEST(RmmArena, FailsForGoodWhenTheDeviceRefusesIt) {
  Arena arena(of(8_MiB), limited_to(4_MiB));
  EXPECT_FALSE(arena.alloc(0, 256_B));
}

TEST(RmmArena, WithoutLimitCountsWhatWasReached) {
  Arena arena(RmmArenaSettings{});
  EXPECT_EQ(arena.reserved(), 0_B);
  arena.alloc(0, 3_MiB);
  EXPECT_EQ(arena.reserved(), 3_MiB);
  arena.alloc(1, 1_B);
  EXPECT_EQ(arena.reserved(), 4_MiB);
  arena.free(0);
  arena.alloc(0, 2_MiB);
  EXPECT_EQ(arena.reserved(), 4_MiB);
}

TEST(RmmArena, SmallRequestsShareASuperblockOfTheirStream) {
  Arena arena(of(8_MiB));
  arena.alloc(0, 1_KiB, 0);
  arena.alloc(1, 1_KiB, 0);
  arena.alloc(2, 1_KiB, 1);
  EXPECT_EQ(arena.at(1), at(1_KiB));
  EXPECT_EQ(arena.at(2), at(1_MiB));
}

TEST(RmmArena, LargeRequestsHaveSuperblocksOfTheirSize) {
  Arena arena(of(8_MiB));
  arena.alloc(0, 1_MiB + 1_B);
  EXPECT_EQ(arena.size(0), 1_MiB + 256_B);
  arena.alloc(1, 1_MiB);  // not large
  EXPECT_EQ(arena.at(1), at(1_MiB + 256_B));
}

TEST(RmmArena, ASuperblockIsNotCutWhenLessThanAMebibyteWouldRemain) {
  Arena arena(of(4_MiB));
  arena.alloc(0, 3_MiB + 256_B, 0);  // all 4 MiB are its superblock
  EXPECT_TRUE(arena.alloc(1, 512_KiB, 1)) << "what is left of the superblock moves to the stream's arena";
  EXPECT_EQ(arena.at(1), at(3_MiB + 256_B));
  arena.free(1);
  EXPECT_TRUE(arena.alloc(2, 512_KiB, 0)) << "the other stream gets it after a defragmentation";
  EXPECT_EQ(arena->driver_calls().sync, 1U);
}

TEST(RmmArena, FirstFitIsByAddress) {
  Arena arena(of(16_MiB));
  for (std::uint32_t i = 0; i < 5; ++i) arena.alloc(i, 2_MiB);
  arena.free(0);
  arena.free(2);
  arena.alloc(5, 1536_KiB);
  EXPECT_EQ(arena.at(5), at(0_B));
  arena.alloc(6, 2_MiB);
  EXPECT_EQ(arena.at(6), at(4_MiB));
}

TEST(RmmArena, EmptySuperblocksOfTheGlobalArenaMerge) {
  Arena arena(of(16_MiB));
  for (std::uint32_t i = 0; i < 4; ++i) arena.alloc(i, 2_MiB);
  arena.free(1);
  arena.free(2);
  arena.alloc(4, 4_MiB);
  EXPECT_EQ(arena.at(4), at(2_MiB));
}

TEST(RmmArena, AStreamKeepsItsSuperblocksUntilSomethingFails) {
  Arena arena(of(4_MiB));
  arena.alloc(0, 1_KiB, 0);
  arena.free(0);
  EXPECT_FALSE(arena.alloc(1, 5_MiB));
  Arena again(of(4_MiB));
  again.alloc(0, 1_KiB, 0);
  again.free(0);
  const auto before = again->driver_calls().sync;
  EXPECT_TRUE(again.alloc(1, 4_MiB)) << "the stream's empty superblock comes back";
  EXPECT_EQ(again->driver_calls().sync, before + 1);
}

TEST(RmmArena, SuperblocksInUseComeBackToo) {
  Arena arena(of(3_MiB));
  arena.alloc(0, 256_KiB, 0);
  arena.alloc(1, 1280_KiB, 0);  // the other 2 MiB
  EXPECT_TRUE(arena.alloc(2, 600_KiB, 1));
  EXPECT_TRUE(arena.alloc(3, 700_KiB, 1)) << "in the superblock that stream 0 had";
  EXPECT_EQ(arena.at(3), at(256_KiB));
  const auto before = arena->driver_calls().sync;
  arena.free(0);
  EXPECT_EQ(arena->driver_calls().sync, before + 1) << "freed into another arena";
}

TEST(RmmArena, FreeingOnAnotherStreamWaitsForIt) {
  Arena arena(of(8_MiB));
  arena.alloc(0, 1_KiB, 0);
  arena.free_on(1, 0);
  EXPECT_EQ(arena->driver_calls().sync, 1U);
  arena.alloc(0, 1_KiB, 0);
  EXPECT_EQ(arena.at(0), at(0_B)) << "it went back to the arena that it was from";
}

TEST(RmmArena, FreeingALargeBlockWaitsForTheStream) {
  Arena arena(of(8_MiB));
  arena.alloc(0, 2_MiB);
  arena.alloc(1, 1_MiB);
  arena.free(0);
  arena.free(1);
  EXPECT_EQ(arena->driver_calls().sync, 1U);
}

void compare(Bytes size, std::uint64_t seed, std::uint64_t most, bool unlimited) {
  const std::vector<std::uint64_t> handles{0, 1, 9};
  Arena arena(unlimited ? RmmArenaSettings{} : of(size), {}, handles);
  ReferenceArena reference(size);
  synthetic::Random random(seed);
  std::map<std::uint32_t, Bytes> live;
  std::uint64_t failures = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto slot = static_cast<std::uint32_t>(random.below(100));
    if (const auto found = live.find(slot); found != live.end()) {
      reference.free(arena.at(slot), found->second);
      arena.free(slot);
      live.erase(found);
      continue;
    }
    const Bytes request{random.log_uniform(256, most)};
    const auto pool_stream = static_cast<std::uint32_t>(random.below(handles.size()));
    const auto expected = reference.allocate(request, handles[pool_stream]);
    ASSERT_EQ(arena.alloc(slot, request, pool_stream), expected.has_value()) << "operation " << i;
    if (!expected) {
      ++failures;
      continue;
    }
    ASSERT_EQ(arena.at(slot), *expected) << "operation " << i;
    live[slot] = request;
  }
  EXPECT_EQ(failures == 0, unlimited);
}

TEST(RmmArena, PlacesAsRmmsOwnSetsDo) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    compare(48_MiB, seed, 8U << 20U, false);
    compare(100_MiB, seed, 8U << 20U, false);
    compare(20_MiB + 512_B, seed, 2U << 20U, false);
    compare(5_MiB, seed, 512U << 10U, false);
    compare(1_GiB * 64, seed, 8U << 20U, true);
  }
}

}  // namespace
}  // namespace memreel
