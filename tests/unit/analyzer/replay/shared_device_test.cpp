// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/shared_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "analyzer/replay/registry.h"
#include "analyzer/replay/replay.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

constexpr DeviceModel of_size(Bytes capacity) { return {.kind = DeviceModel::Kind::capacity, .capacity = capacity}; }

class SharedDeviceTest : public ::testing::Test {
 protected:
  SharedDeviceTest() : a_(build_.origin(HeapId{1})), b_(build_.origin(build_.heap("b", Level::framework, 0))) {}

  /// What replaying the pools on a device of this size gives, with `beside_` beside them.
  DeviceReplay replayed(const char* policy, std::optional<DeviceModel> device, bool find_min_capacity = false) {
    const std::vector<Prepared> heaps = prepare(build_.trace());
    Surroundings around;
    if (!beside_.empty()) around.beside[0] = beside_;
    const auto devices = replay_devices(heaps, *parse_policies(policy),
                                        {.device = device, .find_min_capacity = find_min_capacity}, around);
    EXPECT_TRUE(devices);
    EXPECT_EQ(devices->size(), 1U);
    return devices->front();
  }

  TraceBuilder build_;
  OriginId a_, b_;
  std::vector<HeldFrom> beside_;
};

TEST_F(SharedDeviceTest, TheRequestThatComesLastFails) {
  build_.alloc(a_, {0x1000000}, 10_MiB);
  build_.alloc(b_, {0x2000000}, 10_MiB);
  build_.alloc(a_, {0x3000000}, 10_MiB);
  const DeviceReplay replay = replayed("cuda.malloc", of_size(20_MiB), true);
  EXPECT_EQ(replay.heaps[0].failed_allocations, 1U);
  EXPECT_EQ(replay.heaps[0].first_failure->event, 2U);
  EXPECT_EQ(replay.heaps[1].failed_allocations, 0U);
  EXPECT_EQ(replay.failed_allocations, 1U);
  EXPECT_EQ(replay.peak_reserved, 20_MiB);
  EXPECT_EQ(replay.min_capacity, 30_MiB);
  EXPECT_EQ(replayed("cuda.malloc", of_size(30_MiB)).failed_allocations, 0U);
}

TEST_F(SharedDeviceTest, NoCapacityIsTheLeastIfTheDeadlinePassedFirst) {
  build_.alloc(a_, {0x1000000}, 10_MiB);
  build_.alloc(b_, {0x2000000}, 10_MiB);
  const std::vector<Prepared> heaps = prepare(build_.trace());
  const SharedDevice device({&heaps[0], &heaps[1]}, {});
  const BoundPolicy policy = *bind_policy(parse_policies("cuda.malloc")->front());
  const auto late = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_TRUE(device.replay(policy, std::nullopt, {.deadline = late}).unfinished);
  EXPECT_EQ(device.min_capacity(policy, late), std::nullopt);
  EXPECT_EQ(device.min_capacity(policy, std::chrono::steady_clock::time_point::max()), 20_MiB);
}

TEST_F(SharedDeviceTest, WhatAPoolCachesIsNotThereForTheOther) {
  const AllocationId first = build_.alloc(a_, {0x1000000}, 20_MiB);
  build_.free(first);
  build_.alloc(b_, {0x2000000}, 20_MiB);
  EXPECT_EQ(replayed("torch.native", of_size(30_MiB)).failed_allocations, 1U);
  EXPECT_EQ(replayed("cuda.malloc", of_size(30_MiB)).failed_allocations, 0U);
  EXPECT_EQ(replayed("torch.native", std::nullopt).peak_reserved, 40_MiB);
}

TEST_F(SharedDeviceTest, WhatIsBesideCountsAtItsInstantOnly) {
  const AllocationId first = build_.alloc(a_, {0x1000000}, 20_MiB);
  build_.free(first);
  build_.alloc(b_, {0x2000000}, 2_MiB);
  beside_ = {{.event = 3, .held = 50_MiB}};  // once a has given its memory back
  const DeviceReplay replay = replayed("cuda.malloc", of_size(52_MiB), true);
  EXPECT_EQ(replay.failed_allocations, 0U);
  EXPECT_EQ(replay.peak_reserved, 52_MiB);
  EXPECT_EQ(replay.beside_at_peak, 50_MiB);
  EXPECT_EQ(replay.min_capacity, 52_MiB);
  EXPECT_GT(replayed("cuda.malloc", of_size(50_MiB)).failed_allocations, 0U);
  // As does a bound, which is measured many rows at a time.
  EXPECT_EQ(replayed("bound.live", of_size(52_MiB), true).min_capacity, 52_MiB);
  EXPECT_GT(replayed("bound.live", of_size(51_MiB)).failed_allocations, 0U);
}

TEST_F(SharedDeviceTest, TheLeastCapacityIsNotRoundedUpForWhatIsBeside) {
  build_.free(build_.alloc(a_, {0x1000000}, 20_MiB));
  beside_ = {{.event = 0, .held = 5_MiB + 1_KiB}};
  for (const char* const policy : {"cuda.malloc", "torch.native", "cuda.async", "buddy"}) {
    const Bytes needed = replayed(policy, std::nullopt).peak_reserved;
    EXPECT_EQ(replayed(policy, of_size(1_GiB), true).min_capacity, needed) << policy;
    EXPECT_EQ(replayed(policy, of_size(needed)).failed_allocations, 0U) << policy;
  }
}

TEST_F(SharedDeviceTest, APeakBetweenTwoChangesOfWhatIsBesideCounts) {
  const AllocationId first = build_.alloc(a_, {0x1000000}, 30_MiB);
  build_.free(first);
  beside_ = {{.event = 2, .held = 1_MiB}};
  const DeviceReplay replay = replayed("bound.live", of_size(30_MiB), true);
  EXPECT_EQ(replay.peak_reserved, 30_MiB);
  EXPECT_EQ(replay.min_capacity, 30_MiB);
}

TEST_F(SharedDeviceTest, TheDevicesPeakIsTheMostThatIsHeldAtOnce) {
  std::mt19937 random(1);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  struct Live {
    AllocationId id;
    Bytes size;
  };
  std::vector<Live> live;
  Bytes now, beside, most;
  for (std::uint64_t i = 0; i < 400; ++i) {
    if (live.empty() || below(5) < 3) {
      const Bytes size{1 + below(100)};
      live.push_back({build_.alloc(below(2) == 0 ? a_ : b_, {i << 20U}, size), size});
      now += size;
    } else {
      const std::size_t which = below(live.size());
      build_.free(live[which].id);
      now -= live[which].size;
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
    most = std::max(most, now + beside);
    if (below(8) != 0) continue;
    beside = Bytes{below(1000)};
    beside_.push_back({.event = static_cast<std::uint32_t>(build_.trace().events.count() - 1), .held = beside});
    most = std::max(most, now + beside);
  }
  const DeviceReplay replay = replayed("bound.live", std::nullopt, true);
  EXPECT_EQ(replay.peak_reserved, most);
  EXPECT_EQ(replay.min_capacity, most);
}

}  // namespace
}  // namespace memreel
