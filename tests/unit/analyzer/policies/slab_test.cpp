// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/slab.h"

#include <gtest/gtest.h>

#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::limited_to;
using DrivenSlab = testing::Driven<SlabPolicy, SlabSettings>;

TEST(Slab, RoundsUpToOneOfFourClassesADoubling) {
  DrivenSlab slab;
  const auto rounded = [&](Bytes size) {
    slab.alloc(0, size);
    const Bytes taken = slab.size(0);
    slab.free(0);
    return taken;
  };
  EXPECT_EQ(rounded(0_B), 512_B);
  EXPECT_EQ(rounded(512_B), 512_B);
  EXPECT_EQ(rounded(513_B), 640_B);
  EXPECT_EQ(rounded(641_B), 768_B);
  EXPECT_EQ(rounded(1_KiB), 1_KiB);
  EXPECT_EQ(rounded(1_MiB + 1_B), 1280_KiB);
  EXPECT_EQ(rounded(100_MiB), 112_MiB);
  EXPECT_EQ(rounded(3_GiB), 3_GiB);
}

TEST(Slab, ASlabHasTheFewestPagesThatLeaveOverAtMostAnEighth) {
  const auto slab_of = [](Bytes size) {
    DrivenSlab slab;
    slab.alloc(0, size);
    return slab.reserved();
  };
  EXPECT_EQ(slab_of(512_B), 2_MiB);
  EXPECT_EQ(slab_of(2_MiB), 2_MiB);
  EXPECT_EQ(slab_of(1792_KiB), 2_MiB);  // an eighth is left over
  EXPECT_EQ(slab_of(1280_KiB), 4_MiB);  // three of them, not one in 2 MiB
  EXPECT_EQ(slab_of(2560_KiB), 8_MiB);  // three of them
  EXPECT_EQ(slab_of(14_MiB), 14_MiB);
}

TEST(Slab, MemoryOfOneClassDoesNotHelpAnother) {
  DrivenSlab slab;
  slab.alloc(0, 1_KiB);
  slab.free(0);
  slab.alloc(1, 2_KiB);
  EXPECT_EQ(slab.reserved(), 4_MiB);
  slab.alloc(2, 1000_B);
  EXPECT_EQ(slab.reserved(), 4_MiB);
}

TEST(Slab, TakesTheLowestBlockOfTheSlabThatBecamePartlyUsedLast) {
  DrivenSlab slab;  // of 1 MiB: two in a slab
  for (std::uint32_t slot = 0; slot < 6; ++slot) slab.alloc(slot, 1_MiB);
  EXPECT_EQ(slab.reserved(), 6_MiB);
  EXPECT_EQ(slab.at(1), slab.at(0) + 1_MiB);
  const Bytes second = slab.at(2), first_upper = slab.at(1);
  slab.free(2);
  slab.free(1);
  slab.alloc(6, 1_MiB);
  EXPECT_EQ(slab.at(6), first_upper);
  slab.alloc(7, 1_MiB);
  EXPECT_EQ(slab.at(7), second);
}

TEST(Slab, PrefersAPartlyUsedSlabToAnEmptyOne) {
  DrivenSlab slab;
  for (std::uint32_t slot = 0; slot < 4; ++slot) slab.alloc(slot, 1_MiB);
  const Bytes partly = slab.at(0);
  slab.free(0);
  slab.free(2);
  slab.free(3);
  slab.alloc(4, 1_MiB);
  EXPECT_EQ(slab.at(4), partly);
}

TEST(Slab, KeepsEmptySlabsUntilTheCacheIsEmptied) {
  DrivenSlab slab;
  slab.alloc(0, 1_MiB);
  slab.alloc(1, 1280_KiB);
  EXPECT_EQ(slab->left_over(), 256_KiB);
  slab.free(0);
  EXPECT_EQ(slab.reserved(), 6_MiB);
  slab->empty_cache();
  EXPECT_EQ(slab.reserved(), 4_MiB);
  EXPECT_EQ(slab->largest_free(), 1280_KiB);
  slab.free(1);
  slab->empty_cache();
  EXPECT_EQ(slab->left_over(), 0_B);
  EXPECT_EQ(slab->largest_free(), 0_B);
  EXPECT_EQ(slab->driver_calls().free, 2U);
}

TEST(Slab, GivesEmptySlabsBackBeforeItFails) {
  DrivenSlab slab({}, limited_to(4_MiB));
  slab.alloc(0, 1_KiB);
  slab.alloc(1, 2_KiB);
  EXPECT_FALSE(slab.alloc(2, 3_KiB));
  slab.free(0);
  EXPECT_TRUE(slab.alloc(2, 3_KiB));
  EXPECT_FALSE(slab.alloc(3, Bytes{~std::uint64_t{0}}));
}

}  // namespace
}  // namespace memreel
