// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/cards.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

/// A recording with a 1 GiB segment, and usage samples: of the device, of another one, and of a pool.
std::array<Recording, 1> sampled() {
  TraceBuilder build;
  const OriginId torch = build.origin(HeapId{1});
  const OriginId device = build.origin(build.heap("cuda.driver", Level::driver, 0)),
                 other = build.origin(build.heap("cuda.driver", Level::driver, 1)),
                 limit = build.origin(build.heap("BFC", Level::framework, 0));
  build.event(EventKind::memory_info, device, {}, 600_MiB);
  build.event(EventKind::segment_alloc, torch, Address{1U << 30U}, 1_GiB);
  build.event(EventKind::memory_info, device, {}, 1_GiB + 500_MiB);
  build.event(EventKind::memory_info, other, {}, 20_GiB);
  build.event(EventKind::memory_info, limit, {}, 30_GiB);
  return {Recording{.at = {1}, .trace = std::move(build.trace()), .heap = HeapId{1}}};
}

TEST(PredictDevice, OfACardIsWhatOthersLeave) {
  const Result<PredictDevice> device = predict_device("A100-40GB", sampled());
  ASSERT_TRUE(device);
  EXPECT_EQ(device->others, 500_MiB);
  EXPECT_FALSE(device->assumed);
  EXPECT_EQ(device->capacity, find_card("A100-40GB")->memory - 500_MiB);
  EXPECT_EQ(device->gpu, find_card("A100-40GB")->gpu);
}

TEST(PredictDevice, OfACardWithoutSamplesIsWhatOthersMostlyLeave) {
  const Result<PredictDevice> device = predict_device("L4", {});
  ASSERT_TRUE(device);
  EXPECT_EQ(device->others, assumed_context);
  EXPECT_TRUE(device->assumed);
}

TEST(PredictDevice, OfASizeIsThatSize) {
  const Result<PredictDevice> device = predict_device("24GiB", sampled());
  ASSERT_TRUE(device);
  EXPECT_EQ(device->capacity, 24_GiB);
  EXPECT_FALSE(device->gpu);
}

TEST(PredictDevice, IsACardOrASize) {
  const Result<PredictDevice> device = predict_device("H100", {});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().where, "--capacity");
  EXPECT_NE(device.error().remedy.find("H100-80GB"), std::string::npos);
}

}  // namespace
}  // namespace memreel
