// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/replay.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

TEST(UnitCosts, AFixedPartForEachCallAndOneForEachMiB) {
  UnitCosts costs;
  costs[DriverCall::malloc] = {.fixed_seconds = 10, .seconds_per_mib = 0.5};
  costs[DriverCall::malloc_shared] = {.fixed_seconds = 1};
  costs[DriverCall::map] = {.fixed_seconds = 100, .seconds_per_mib = 2};
  EXPECT_EQ(costs.seconds({}), 0);
  EXPECT_EQ(costs.seconds({.malloc = 5, .malloc_shared = 3, .malloc_bytes = 4_MiB}), 2 * 10 + 3 * 1 + 4 * 0.5);
  EXPECT_EQ(costs.seconds({.free = 9, .map = 2, .map_bytes = 512_KiB}), 200 + 1);
}

TEST(UnitCosts, AnH200sAreThoseOfTheSample) {
  std::ifstream file(MEMREEL_SAMPLES "/unit-costs-h200.json");
  const nlohmann::json sample = nlohmann::json::parse(file);
  const UnitCosts costs = UnitCosts::of_h200();
  EXPECT_EQ(costs.measured_on, sample["measured_on"]);
  for (std::size_t i = 0; i < driver_call_kinds; ++i) {
    const auto& call = sample["calls"][std::string(driver_call_names[i])];
    EXPECT_NEAR(costs.of[i].fixed_seconds, call["fixed_seconds"], 1e-9) << driver_call_names[i];
    EXPECT_NEAR(costs.of[i].seconds_per_mib, call["seconds_per_mib"], 1e-10) << driver_call_names[i];
  }
}

TEST(UnitCosts, ReplaysCountTheBytesThatChangeHands) {
  testing::History history;
  history.free(history.alloc(30_MiB));
  history.alloc(100_KiB);
  history.empty_cache();
  const Prepared heap = history.prepared();
  const auto results = replay({&heap, 1}, *parse_policies("torch.native,fit.best,cuda.async,cuda.malloc"));
  ASSERT_TRUE(results);
  const auto calls = [&](std::size_t i) { return results->at(i).driver_calls; };
  EXPECT_EQ(calls(0).malloc_bytes, 32_MiB);  // 30 and 2
  EXPECT_EQ(calls(0).free_bytes, 30_MiB);
  EXPECT_EQ(calls(1).map_bytes, 30_MiB);
  EXPECT_EQ(calls(1).unmap_bytes, 28_MiB);
  EXPECT_EQ(calls(2).map_bytes, 32_MiB);
  EXPECT_EQ(calls(2).malloc_async, 2U);
  EXPECT_EQ(calls(3).malloc_bytes, 32_MiB);
  EXPECT_EQ(calls(3).free_bytes, 30_MiB);
}

}  // namespace
}  // namespace memreel
