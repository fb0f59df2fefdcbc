// SPDX-License-Identifier: Apache-2.0
// rmm.binning: the bins in front of a pool.
#include "analyzer/replay/policies/rmm_binning.h"

#include <gtest/gtest.h>

#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::DrivenOnStreams;
using testing::limited_to;
using Binning = DrivenOnStreams<RmmBinning, RmmBinningSettings>;

const RmmBinningSettings small{.smallest = 1_KiB, .largest = 4_KiB, .pool = {.initial = 0_B}};

TEST(RmmBinning, TakesAChunkForEveryBinBeforeTheFirstRequest) {
  Binning binning(RmmBinningSettings{});
  EXPECT_EQ(binning.reserved(), 992_MiB);
  EXPECT_EQ(binning->use().free, 992_MiB);
  EXPECT_EQ(binning->use().allocated, 0_B);
}

TEST(RmmBinning, ARequestGetsABlockOfTheSmallestBinThatItFits) {
  Binning binning(RmmBinningSettings{});
  const std::vector<std::pair<Bytes, Bytes>> cases{
      {1_B, 256_KiB}, {256_KiB, 256_KiB}, {256_KiB + 1_B, 512_KiB}, {512_KiB + 1_B, 1_MiB},
      {1_MiB, 1_MiB}, {3_MiB, 4_MiB},     {4_MiB, 4_MiB},           {4_MiB + 1_B, 4_MiB + 256_B}};
  std::uint32_t slot = 0;
  for (const auto& [request, size] : cases) {
    ASSERT_TRUE(binning.alloc(slot, request));
    EXPECT_EQ(binning.size(slot++), size) << request.count;
  }
}

TEST(RmmBinning, BlocksAreReusedFirstInFirstOut) {
  Binning binning(small);
  for (std::uint32_t i = 0; i < 128; ++i) binning.alloc(i, 1_KiB);
  const Address first = binning.at(5), second = binning.at(3);
  EXPECT_EQ(binning.at(1) - binning.at(0), 1_KiB);
  binning.free(5);
  binning.free(3);
  binning.alloc(200, 1_KiB);
  binning.alloc(201, 1_KiB);
  EXPECT_EQ(binning.at(200), first);
  EXPECT_EQ(binning.at(201), second);
}

TEST(RmmBinning, ABlockOfAnotherStreamIsTakenBeforeTheBinGrows) {
  Binning binning(small);
  for (std::uint32_t i = 0; i < 128; ++i) binning.alloc(i, 1_KiB, i % 2);
  const Bytes before = binning.reserved();
  const Address freed = binning.at(1);
  binning.free(1);
  binning.alloc(200, 1_KiB, 0);
  EXPECT_EQ(binning.at(200), freed);
  EXPECT_EQ(binning.reserved(), before);
  binning.alloc(201, 1_KiB, 0);
  EXPECT_GT(binning.reserved(), before);
}

TEST(RmmBinning, FailsForGoodWhenABinGetsNoChunk) {
  Binning binning(RmmBinningSettings{}, limited_to(900_MiB));
  EXPECT_FALSE(binning.alloc(0, 1_B));
  EXPECT_FALSE(binning.alloc(0, 8_MiB));
}

TEST(RmmBinning, GivesNothingToWhoAsksForNothing) {
  Binning binning(small);
  EXPECT_TRUE(binning.alloc(0, 0_B));
  EXPECT_EQ(binning.size(0), 0_B);
  binning.free(0);
  EXPECT_EQ(binning->use().free, binning.reserved());
}

}  // namespace
}  // namespace memreel
