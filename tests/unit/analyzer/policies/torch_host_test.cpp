// SPDX-License-Identifier: Apache-2.0
// torch.host: each rule by hand. Histories of the real one: tests/e2e/test_releases.py.
#include "analyzer/replay/policies/torch_host.h"

#include <gtest/gtest.h>

#include "analyzer/replay/policies/torch_spec.h"
#include "analyzer/replay/registry.h"
#include "formats/torch/alloc_conf.h"
#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::limited_to;
using Pinned = testing::Driven<TorchHost>;
constexpr std::uint32_t private_pool = 2;  // (pool, stream) pair

TEST(TorchHost, RoundsUpToPowersOfTwo) {
  Pinned host;
  EXPECT_TRUE(host.alloc(0, 3000_B));
  EXPECT_TRUE(host.alloc(1, 5_MiB));
  EXPECT_TRUE(host.alloc(2, 1_B));
  EXPECT_EQ(host.size(0), 4_KiB);
  EXPECT_EQ(host.size(1), 8_MiB);
  EXPECT_EQ(host.size(2), 1_B);
  EXPECT_EQ(host.reserved(), 8_MiB + 4_KiB + 1_B);
  EXPECT_EQ(host->driver_calls().malloc, 3U);
}

TEST(TorchHost, ARequestForNothingGetsNothing) {
  Pinned host;
  EXPECT_TRUE(host.alloc(0, 0_B));
  host.free(0);
  EXPECT_EQ(host.reserved(), 0_B);
  EXPECT_EQ(host->largest_free(), 0_B);
}

TEST(TorchHost, AboveTheLimitsNothingIsRounded) {
  Pinned host({.round_threshold = 1_MiB});
  host.alloc(0, 1_MiB);
  host.alloc(1, 1_MiB + 1_B);
  EXPECT_EQ(host.size(1), 1_MiB + 1_B);
  Pinned uncached({.cached = 1_MiB});
  uncached.alloc(0, 1_MiB + 1_B);
  EXPECT_EQ(uncached.size(0), 1_MiB + 1_B);
}

TEST(TorchHost, TheBlockFreedLastOfThoseLargeEnoughIsTakenWhole) {
  Pinned host({.round_threshold = 0_B});
  for (std::uint32_t slot = 0; slot < 3; ++slot) host.alloc(slot, 900_KiB + 10_KiB * slot);
  const Bytes largest = host.at(2), middle = host.at(1);
  for (const std::uint32_t slot : {2U, 1U, 0U}) host.free(slot);
  host.alloc(3, 905_KiB);  // 900 KiB was freed last, but is too small
  EXPECT_EQ(host.at(3), middle);
  EXPECT_EQ(host.size(3), 910_KiB);
  host.alloc(4, 600_KiB);
  host.alloc(5, 600_KiB);
  EXPECT_EQ(host.at(5), largest);
  EXPECT_EQ(host.reserved(), 2730_KiB);
  host.alloc(6, 500_KiB);  // of another power of two
  EXPECT_EQ(host.reserved(), 3230_KiB);
}

TEST(TorchHost, PoolsShareNothing) {
  Pinned host;
  host.alloc(0, 1_MiB, private_pool);
  host.free(0);
  host.alloc(1, 1_MiB);
  EXPECT_EQ(host.reserved(), 2_MiB);
}

TEST(TorchHost, WhatIsTooLargeToBeCachedIsGivenBackWhenTheDeviceIsDone) {
  Pinned host({.cached = 1_MiB});
  host.alloc(0, 3_MiB);
  host->free_requested(0, 3_MiB);
  EXPECT_EQ(host.reserved(), 3_MiB);
  EXPECT_EQ(host->use().allocated, 0_B);
  host->free_completed(0, 3_MiB);
  EXPECT_EQ(host.reserved(), 0_B);
  EXPECT_EQ(host->driver_calls().free, 1U);
}

TEST(TorchHost, EmptyCacheGivesBackWhatIsFreeAndPoolsThatAreOver) {
  Pinned host;
  host.alloc(0, 1_MiB);
  host.alloc(1, 2_MiB);
  host.alloc(2, 4_MiB, private_pool);
  host.free(1);
  host.free(2);
  EXPECT_EQ(host->largest_free(), 4_MiB);
  host->empty_cache();
  EXPECT_EQ(host.reserved(), 5_MiB);
  host->pool_ended(private_pool);
  host->empty_cache();
  EXPECT_EQ(host.reserved(), 1_MiB);
  EXPECT_EQ(host->use().free, 0_B);
}

TEST(TorchHost, NothingIsGivenBackToMakeRoom) {
  Pinned host({}, limited_to(4_MiB));
  host.alloc(0, 2_MiB);
  host.free(0);
  EXPECT_FALSE(host.alloc(1, 3_MiB));
  EXPECT_EQ(host.reserved(), 2_MiB);
  EXPECT_TRUE(host.alloc(2, 2_MiB));
}

TEST(TorchHost, TheReserveSegmentIsCutFromItsFrontAndNeverUsedAgain) {
  Pinned host({.reserve = 1_MiB});
  host.alloc(0, 100_B);
  EXPECT_EQ(host.reserved(), 1_MiB);
  host.alloc(1, 512_KiB);
  EXPECT_EQ(host.at(1) - host.at(0), 4_KiB);
  EXPECT_EQ(host->use().free, 508_KiB);
  host.alloc(2, 512_KiB);  // more than what is left
  EXPECT_EQ(host.reserved(), 1536_KiB);
  host.free(1);
  host.free(2);
  host->empty_cache();
  EXPECT_EQ(host.reserved(), 1_MiB);
  EXPECT_EQ(host->use().free, 508_KiB);
  host.alloc(3, 512_KiB);
  EXPECT_EQ(host.reserved(), 1536_KiB);
}

TEST(TorchHost, ParametersAreThoseOfPyTorch) {
  const auto policy = bind_policy({.name = "torch.host",
                                   .parameters = {{"pinned_max_round_threshold_mb", "0"},
                                                  {"pinned_max_cached_size_mb", "64"},
                                                  {"pinned_use_cuda_host_register", "True"},
                                                  {"pinned_num_register_threads", "8"}}});
  ASSERT_TRUE(policy) << policy.error().message();
  const TorchHostSettings settings{.round_threshold = 0_B, .cached = 64_MiB};
  EXPECT_EQ(policy->spec, spec_of(settings));
  EXPECT_EQ(alloc_conf(settings), "pinned_max_cached_size_mb:64,pinned_max_round_threshold_mb:0");
  EXPECT_EQ(alloc_conf(TorchHostSettings{}), "");
  for (const char* value : {"-1", "1.5", "1GiB", ""}) {
    EXPECT_FALSE(bind_policy({.name = "torch.host", .parameters = {{"pinned_max_cached_size_mb", value}}})) << value;
    EXPECT_FALSE(bind_policy({.name = "torch.host", .parameters = {{"pinned_reserve_segment_size_mb", value}}}))
        << value;
  }
  EXPECT_FALSE(bind_policy({.name = "torch.host", .parameters = {{"max_split_size_mb", "64"}}}));
}

}  // namespace
}  // namespace memreel
