// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/buddy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::limited_to;
using DrivenBuddy = testing::Driven<Buddy, BuddySettings>;

TEST(Buddy, RoundsUpToAPowerOfTwo) {
  DrivenBuddy buddy;
  buddy.alloc(0, 0_B);
  buddy.alloc(1, 513_B);
  buddy.alloc(2, 1_MiB);
  buddy.alloc(3, 1_MiB + 1_B);
  EXPECT_EQ(buddy.size(0), 512_B);
  EXPECT_EQ(buddy.size(1), 1_KiB);
  EXPECT_EQ(buddy.size(2), 1_MiB);
  EXPECT_EQ(buddy.size(3), 2_MiB);
}

TEST(Buddy, TakesTheLowerHalfAndLeavesTheOthersBehindIt) {
  DrivenBuddy buddy;
  buddy.alloc(0, 4_MiB);  // of 32: leaves 4, 8 and 16
  EXPECT_EQ(buddy.at(0), 0_B);
  buddy.alloc(1, 16_MiB);
  EXPECT_EQ(buddy.at(1), 16_MiB);
  buddy.alloc(2, 2_MiB);
  EXPECT_EQ(buddy.at(2), 4_MiB);
  EXPECT_EQ(buddy->largest_free(), 8_MiB);
  EXPECT_EQ(buddy.reserved(), 32_MiB);
}

TEST(Buddy, MergesWithItsBuddyOnlyAndAsFarAsItGoes) {
  DrivenBuddy buddy;
  for (std::uint32_t slot = 0; slot < 4; ++slot) buddy.alloc(slot, 8_MiB);
  buddy.free(1);
  buddy.free(2);
  EXPECT_EQ(buddy->largest_free(), 8_MiB);  // neighbors, but not buddies
  buddy.free(3);
  EXPECT_EQ(buddy->largest_free(), 16_MiB);
  buddy.free(0);
  EXPECT_EQ(buddy->largest_free(), 32_MiB);
}

TEST(Buddy, TakesTheBlockFreedLast) {
  DrivenBuddy buddy;
  for (std::uint32_t slot = 0; slot < 4; ++slot) buddy.alloc(slot, 8_MiB);
  buddy.free(2);
  buddy.free(0);
  buddy.alloc(4, 8_MiB);
  EXPECT_EQ(buddy.at(4), 0_B);
  buddy.alloc(5, 8_MiB);
  EXPECT_EQ(buddy.at(5), 16_MiB);
}

TEST(Buddy, GrowsByItsLargestBlockOrByTheRequestAndGivesWholeRegionsBack) {
  DrivenBuddy buddy;
  buddy.alloc(0, 1_KiB);
  EXPECT_EQ(buddy.reserved(), 32_MiB);
  buddy.alloc(1, 33_MiB);
  EXPECT_EQ(buddy.reserved(), 96_MiB);
  EXPECT_EQ(buddy.at(1), 64_MiB);  // at a multiple of its size
  buddy.alloc(2, 32_MiB);
  EXPECT_EQ(buddy.reserved(), 128_MiB);
  buddy.free(1);
  buddy->empty_cache();
  EXPECT_EQ(buddy.reserved(), 64_MiB);
  buddy.free(0);
  buddy.free(2);
  buddy->empty_cache();
  EXPECT_EQ(buddy.reserved(), 0_B);
  EXPECT_EQ(buddy->driver_calls().malloc, 3U);
  EXPECT_EQ(buddy->driver_calls().free, 3U);
}

TEST(Buddy, PartsOfALargeRegionServeSmallRequests) {
  DrivenBuddy buddy;
  buddy.alloc(0, 64_MiB);
  buddy.free(0);
  buddy.alloc(1, 1_MiB);
  buddy.alloc(2, 32_MiB);
  EXPECT_EQ(buddy.reserved(), 64_MiB);
}

TEST(Buddy, GivesRegionsBackBeforeItFails) {
  DrivenBuddy buddy({}, limited_to(96_MiB));
  buddy.alloc(0, 32_MiB);
  buddy.free(0);
  EXPECT_TRUE(buddy.alloc(1, 40_MiB));
  EXPECT_EQ(buddy.reserved(), 96_MiB);
  buddy.free(1);
  buddy.alloc(0, 1_KiB);  // in the first region
  EXPECT_FALSE(buddy.alloc(2, 128_MiB));
  EXPECT_EQ(buddy.reserved(), 32_MiB);
  EXPECT_FALSE(buddy.alloc(2, Bytes{~std::uint64_t{0}}));
}

TEST(Buddy, ReusesMemoryOnlyWhenTheFreeIsCompleted) {
  DrivenBuddy buddy;
  buddy.alloc(0, 16_MiB);
  buddy->free_requested(0, {});
  EXPECT_EQ(buddy->use().allocated, 0_B);
  EXPECT_EQ(buddy->use().free, 16_MiB);
  buddy->free_completed(0, {});
  EXPECT_EQ(buddy->largest_free(), 32_MiB);
}

/// The textbook algorithm: a list of offsets for each order, buddies found by XOR. One region.
class TextbookBuddy {
 public:
  explicit TextbookBuddy(Bytes region) { lists_[region.count] = {0}; }

  std::uint64_t allocate(Bytes requested) {
    const std::uint64_t size = std::max<std::uint64_t>(std::bit_ceil(requested.count), 512);
    std::uint64_t from = size;
    while (lists_[from].empty()) from *= 2;
    const std::uint64_t at = lists_[from].back();
    lists_[from].pop_back();
    while (from > size) {
      from /= 2;
      lists_[from].push_back(at + from);
    }
    taken_[at] = size;
    return at;
  }

  void free(std::uint64_t at) {
    std::uint64_t size = taken_[at];
    taken_.erase(at);
    for (;; size *= 2) {
      auto& list = lists_[size];
      const auto buddy = std::ranges::find(list, at ^ size);
      if (buddy == list.end()) break;
      list.erase(buddy);
      at &= ~size;
    }
    lists_[size].push_back(at);
  }

 private:
  std::map<std::uint64_t, std::vector<std::uint64_t>> lists_;  // by size, the one to take last
  std::map<std::uint64_t, std::uint64_t> taken_;
};

TEST(Buddy, PlacesEveryBlockWhereTheTextbookDoes) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    DrivenBuddy buddy({.min = 512_B, .max = 4_GiB});
    TextbookBuddy textbook(4_GiB);
    synthetic::Random random(seed);
    std::vector<bool> live(64);
    for (int i = 0; i < 20'000; ++i) {
      const auto slot = static_cast<std::uint32_t>(random.below(64));
      if (live[slot]) {
        textbook.free(buddy.at(slot).count);
        buddy.free(slot);
      } else {
        const Bytes size{random.log_uniform(1, 16U << 20U)};
        ASSERT_TRUE(buddy.alloc(slot, size));
        ASSERT_EQ(buddy.at(slot).count, textbook.allocate(size)) << "step " << i;
      }
      live[slot] = !live[slot];
    }
    EXPECT_EQ(buddy.reserved(), 4_GiB);
  }
}

}  // namespace
}  // namespace memreel
