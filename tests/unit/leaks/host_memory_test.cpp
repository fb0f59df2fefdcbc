// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/host_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

/// A loop whose process is sampled once in each step.
class Sampled : public ::testing::Test {
 protected:
  Sampled() {
    builder_.trace().tables.pools.push_back({.name = builder_.string("resident")});
    process_ = builder_.origin(host_, 0, PoolId{1});
    pinned_ = builder_.origin(host_);
  }

  void step(Bytes resident) {
    builder_.push({.kind = EventKind::memory_info, .origin = process_, .size = resident});
    rounds_.ends.push_back(static_cast<std::uint32_t>(builder_.trace().events.count() - 1));
  }

  std::optional<HostMemory> found() {
    return host_memory(builder_.trace(), heap_histories(builder_.trace()), [&] { return rounds_; });
  }

  testing::TraceBuilder builder_;
  HeapId host_ = builder_.heap("cuda.host", Level::driver, -1);
  OriginId process_{}, pinned_{};
  Rounds rounds_{.source = RoundSource::marks};
};

TEST_F(Sampled, GrowsByWhatEachStepKeeps) {
  for (unsigned i = 0; i < 40; ++i) step(1_GiB + Bytes{i * (24_MiB).count});
  const auto memory = found();
  ASSERT_TRUE(memory && memory->resident);
  EXPECT_EQ(memory->resident->first, 1_GiB);
  EXPECT_EQ(memory->resident->peak, 1_GiB + 936_MiB);
  EXPECT_NEAR(memory->resident->growth_bytes_per_step, static_cast<double>((24_MiB).count), 1);
  EXPECT_EQ(memory->resident->from_step, 21U);
  EXPECT_EQ(memory->resident->until_step, 40U);
}

TEST_F(Sampled, WarmUpIsNoGrowth) {
  for (unsigned i = 0; i < 40; ++i) step(1_GiB + Bytes{std::min(i, 15U) * (100_MiB).count});
  EXPECT_EQ(found()->resident->growth_bytes_per_step, 0);
}

TEST_F(Sampled, WhatACollectorFreesAgainIsNoGrowth) {
  for (unsigned i = 0; i < 40; ++i) step(1_GiB + Bytes{i % 5 * (50_MiB).count});
  EXPECT_EQ(found()->resident->growth_bytes_per_step, 0);
}

TEST_F(Sampled, AFewStepsShowNoGrowth) {
  for (unsigned i = 0; i < 15; ++i) step(1_GiB + Bytes{i * (100_MiB).count});
  EXPECT_EQ(found()->resident->growth_bytes_per_step, 0);
}

TEST_F(Sampled, PinnedMemoryIsKnownWithoutSamples) {
  EXPECT_FALSE(found());
  builder_.free(builder_.alloc(pinned_, {4096}, 64_MiB));
  builder_.alloc(pinned_, {4096}, 16_MiB);
  const auto memory = found();
  ASSERT_TRUE(memory);
  EXPECT_FALSE(memory->resident);
  EXPECT_EQ(memory->pinned_peak, 64_MiB);
  EXPECT_EQ(memory->pinned_end, 16_MiB);
}

TEST(HostMemory, WhatPyTorchGetsFromTheCLibraryIsNotPinned) {
  for (const auto& [name, is_pinned] : {std::pair("torch.cpu", false), std::pair("torch.host", true)}) {
    testing::TraceBuilder build;
    build.alloc(build.origin(build.heap(name, Level::framework, -1)), {4096}, 1_MiB);
    const auto memory = host_memory(build.trace(), heap_histories(build.trace()), [] { return Rounds{}; });
    EXPECT_EQ(memory.has_value(), is_pinned) << name;
  }
}

}  // namespace
}  // namespace memreel
