// SPDX-License-Identifier: Apache-2.0
#include "collector/top/sampled_processes.h"

#include <gtest/gtest.h>

namespace memreel::top {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): its only way in

const Growth::Clock::time_point start{};

TEST(Growth, NeedsTwoSamples) {
  Growth growth;
  EXPECT_FALSE(growth.per_minute());
  growth.add(start, 5_B);
  EXPECT_FALSE(growth.per_minute());
  growth.add(start, 6_B);
  EXPECT_FALSE(growth.per_minute()) << "no time has passed";
}

TEST(Growth, IsPerMinuteUpAndDown) {
  Growth growth;
  growth.add(start, 100_B);
  growth.add(start + 30s, 150_B);
  EXPECT_DOUBLE_EQ(*growth.per_minute(), 100);
  growth.add(start + 60s, 40_B);
  EXPECT_DOUBLE_EQ(*growth.per_minute(), -60);
}

TEST(Growth, IsOfTheLastMinuteHoweverOftenItIsSampled) {
  Growth growth;
  for (int i = 0; i <= 1000; ++i) growth.add(start + i * 100ms, 1000_B);  // 100 seconds of idling
  for (int i = 1; i <= 300; ++i)
    growth.add(start + 100s + i * 100ms, Bytes{1000U + 10U * static_cast<std::uint64_t>(i)});
  EXPECT_NEAR(*growth.per_minute(), 3000, 100) << "half a minute of it stood still";
}

}  // namespace
}  // namespace memreel::top
