// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/rank_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "analyzer/fleet/fleet_gate.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

Fleet fleet_of(Trace trace) {
  Result<Fleet> fleet = assemble_fleet({summarize(std::move(trace), "/job/rank0.reel", {})}, {});
  EXPECT_TRUE(fleet) << fleet.error().message();
  return *std::move(fleet);
}

/// Calls of the driver, with samples of a device of 8 GiB.
class DriverCalls : public ::testing::Test {
 protected:
  DriverCalls() : driver_(builder_.heap("cuda.driver", Level::driver, 0)), origin_(builder_.origin(driver_)) {}
  void sample(Bytes used) {
    builder_.push({.kind = EventKind::memory_info, .origin = origin_, .size = used, .value = (8_GiB - used).count});
  }
  /// A second between events: a sample just before an event may count it already.
  Trace trace() {
    Trace trace = builder_.trace();
    for (std::size_t i = 0; i < trace.events.count(); ++i)
      memreel::testing::set_time(trace.events, i, std::chrono::seconds(static_cast<std::int64_t>(i)));
    return trace;
  }

  TraceBuilder builder_;
  HeapId driver_;
  OriginId origin_;
};

TEST_F(DriverCalls, WhatIsOlderThanTheRecordingIsInItsSamples) {
  sample(2_GiB);
  builder_.alloc(origin_, {0x10'0000}, 1_GiB);
  builder_.trace().losses.began_late = true;
  EXPECT_EQ(fleet_of(trace()).rows.front().headroom, static_cast<std::int64_t>((5_GiB).count));
}

TEST_F(DriverCalls, WhatTheRankItselfHoldsIsNotBesideIt) {
  const AllocationId first = builder_.alloc(origin_, {0x10'0000}, 1_GiB);
  sample(1_GiB + 256_MiB);
  builder_.free(first);
  EXPECT_EQ(fleet_of(trace()).rows.front().headroom, static_cast<std::int64_t>((7_GiB - 256_MiB).count));
}

TEST_F(DriverCalls, WhatAPoolHasLeftIsNotWhatTheDeviceHas) {
  sample(2_GiB);
  builder_.alloc(origin_, {0x10'0000}, 1_GiB);
  builder_.trace().tables.pools.push_back({.name = builder_.string("async")});
  const PoolId pool{static_cast<std::uint32_t>(builder_.trace().tables.pools.size() - 1)};
  builder_.push(
      {.kind = EventKind::memory_info, .origin = builder_.origin(driver_, 0, pool), .size = 1_MiB, .value = 0});
  EXPECT_EQ(summarize(trace(), "/job/rank0.reel", {}).least_free, 6_GiB);
}

TEST_F(DriverCalls, ANativeProgramsStacksAreNotTheDrivers) {
  std::vector<Module>& modules = builder_.trace().tables.modules;
  StackId stack = StackId::none;
  for (const char* const path : {"/home/me/solver", "/usr/lib/libcuda.so.1"}) {  // outermost first
    modules.push_back({.path = builder_.string(path)});
    Tables& tables = builder_.trace().tables;
    tables.frames.push_back(
        {.module = ModuleId{static_cast<std::uint32_t>(modules.size() - 1)}, .module_offset = 0x1234});
    classify_frames(tables, tables.frames.size() - 1);
    tables.stacks.push_back({FrameId{static_cast<std::uint32_t>(tables.frames.size() - 1)}, stack});
    stack = StackId{static_cast<std::uint32_t>(tables.stacks.size() - 1)};
  }
  builder_.alloc(origin_, {0x10'0000}, 1_GiB, stack);
  const RankSummary summary = summarize(trace(), "/job/rank0.reel", {});
  ASSERT_EQ(summary.sites.size(), 1U);
  EXPECT_THAT(summary.sites[0].frames, ::testing::ElementsAre(CodeFrame{.function = "solver", .file = "", .line = 0}));
}

TEST_F(DriverCalls, APeakOlderThanAFlightRecordersEventsIsKnown) {
  builder_.alloc(origin_, {0x10'0000}, 1_MiB);
  FoldedHistory& folded = builder_.trace().folded;
  folded.interval = std::chrono::seconds(1);
  folded.rows = {{.interval = 0, .heap = driver_, .allocations = 2, .allocated = 3_GiB},
                 {.interval = 1, .heap = driver_, .frees = 2, .freed = 3_GiB}};
  builder_.trace().losses.folded_events = 4;
  const RankSummary summary = summarize(trace(), "/job/rank0.reel", {});
  EXPECT_EQ(summary.peak_reserved, 3_GiB);
  EXPECT_TRUE(summary.at_least());
}

/// A pool of weights on GPU `main`; in each of 20 marked steps another pool keeps 1 MiB on GPU `other`.
Trace leaking_beside(std::int32_t main, std::int32_t other) {
  TraceBuilder builder;
  const OriginId weights = builder.origin(builder.heap("weights", Level::framework, main));
  const OriginId small = builder.origin(builder.heap("small", Level::framework, other));
  builder.trace().tables.marks.push_back({.name = builder.string("step")});
  const std::uint64_t mark = builder.trace().tables.marks.size() - 1;
  const StackId stack = builder.stack({"keep@train.py:7"});
  builder.event(EventKind::segment_alloc, weights, {1ULL << 40U}, 2_GiB);
  builder.alloc(weights, {1ULL << 40U}, 1_GiB, builder.stack({"load@train.py:2"}));
  builder.event(EventKind::segment_alloc, small, {1ULL << 30U}, 64_MiB);
  for (std::uint64_t i = 0; i < 20; ++i) {
    builder.alloc(small, {(1ULL << 30U) + (i << 20U)}, 1_MiB, stack);
    builder.push({.kind = EventKind::mark, .value = mark});
  }
  return builder.trace();
}

TEST(RankLeaks, AreThoseOfAllHeapsOfAllDevices) {
  for (const auto& [main, other] : {std::pair{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
    const RankSummary summary = summarize(leaking_beside(main, other), "/job/rank0.reel", {});
    EXPECT_EQ(summary.device, main);
    ASSERT_EQ(summary.leaks.size(), 1U);
    EXPECT_EQ(summary.leaks.front().bytes, 20_MiB);
    EXPECT_EQ(summary.leaks.front().device, other);
    EXPECT_EQ(summary.leaks_not_judged, "");
    EXPECT_TRUE(summarize(leaking_beside(main, other), "/job/rank0.reel", {}, "weights").leaks.empty());
    EXPECT_EQ(summarize(leaking_beside(main, other), "/job/rank0.reel", {}, "small").leaks.size(), 1U);
  }
}

TEST(RankSites, AreTheProgramsNotMemreels) {
  TraceBuilder builder;
  const OriginId pool = builder.origin(builder.heap("pool", Level::framework, 0));
  std::uint64_t address = 1 << 20;
  for (const char* const line : {"step@train.py:4", "load@train.py:9"})
    builder.alloc(pool, {address += 1 << 24}, 2_MiB,
                  builder.stack({"_event@/venv/memreel/annotate.py:212", "alloc@/venv/memreel/annotate.py:160", line}));
  std::vector<std::string> functions;
  for (const RankSite& site : summarize(std::move(builder.trace()), "/job/rank0.reel", {}).sites)
    functions.push_back(site.frames.front().function);
  EXPECT_THAT(functions, ::testing::UnorderedElementsAre("step", "load"));
}

TEST(RankDevices, AreAlsoThoseOnWhichNoFrameworkHasMemory) {
  for (const auto& [pool, driver] : {std::pair{0, 1}, {1, 0}}) {
    TraceBuilder builder;
    const OriginId ours = builder.origin(builder.heap("pool", Level::framework, pool));
    const OriginId given = builder.origin(builder.heap("cuda.driver", Level::driver, driver));
    builder.event(EventKind::segment_alloc, ours, {1ULL << 40U}, 32_MiB);
    builder.alloc(ours, {1ULL << 40U}, 16_MiB);
    builder.alloc(given, {1ULL << 30U}, 300_MiB);
    const RankSummary summary = summarize(builder.trace(), "/job/rank0.reel", {});
    ASSERT_EQ(summary.devices.size(), 1U);
    EXPECT_EQ(summary.devices.front().device, driver);
    EXPECT_EQ(summary.devices.front().peak_reserved, 300_MiB);
    EXPECT_TRUE(summarize(builder.trace(), "/job/rank0.reel", {}, "pool").devices.empty());

    const Result<Fleet> fleet = assemble_fleet({summary}, {.capacity = 200_MiB});
    ASSERT_TRUE(fleet);
    EXPECT_EQ(fleet->rows.front().tightest, driver);
    EXPECT_LT(*fleet->rows.front().headroom, 0);
    const auto checks = check_fleet(*fleet, {.max_reserved = 200_MiB});
    ASSERT_TRUE(checks);
    EXPECT_TRUE(checks->front().failed());
    for (const Check& check : check_fleet(*fleet, baseline_of(*fleet), 0)) EXPECT_TRUE(check.passed()) << check.reason;
  }
}

TEST(RankLeaks, UseUpTheHeadroomOfTheirOwnDevice) {
  for (const std::int32_t other : {0, 1}) {
    RankSummary summary = summarize(leaking_beside(0, other), "/job/rank0.reel", {});
    const Result<Fleet> fleet = assemble_fleet({std::move(summary)}, {.capacity = 4_GiB});
    ASSERT_TRUE(fleet);
    EXPECT_EQ(fleet->rows.front().tightest, 0);
    EXPECT_EQ(fleet->decides->fails_first.has_value(), other == 0);
  }
}

/// Six steps, then 20 calls of the model that keep their outputs.
TEST(RankLeaks, WhatGrowsWithCallsOfAnEvaluationDoesNotGrowWithSteps) {
  TraceBuilder builder;
  const OriginId origin = builder.origin(builder.heap("torch.cuda", Level::framework, 0));
  const auto module_called_at = [&](const std::string& line) {
    return builder.stack({"forward@torch/nn/modules/linear.py:134", "_call_impl@torch/nn/modules/module.py:1762",
                          "forward@model.py:8", "_call_impl@torch/nn/modules/module.py:1762", "main@train.py:" + line,
                          "<module>@train.py:90"});
  };
  const StackId trained = module_called_at("20"), evaluated = module_called_at("43");
  const StackId backward = builder.stack({"torch::autograd::Engine::evaluate_function@engine.cpp:1"});
  const StackId optimizer = builder.stack({"step@torch/optim/adamw.py:1", "main@train.py:22", "<module>@train.py:90"});
  const StackId batch = builder.stack({"batches@data.py:12", "main@train.py:42", "<module>@train.py:90"});
  std::uint64_t next = 1 << 20;
  const auto alloc = [&](StackId stack) { return builder.alloc(origin, {next += 1 << 24}, 2_MiB, stack); };
  for (int step = 0; step < 6; ++step)
    for (const StackId stack : {trained, backward, optimizer}) builder.free(alloc(stack));
  for (int call = 0; call < 20; ++call) {
    builder.free(alloc(batch));
    alloc(evaluated);
  }
  const RankSummary summary = summarize(std::move(builder.trace()), "/job/rank0.reel", {});
  ASSERT_EQ(summary.leaks.size(), 1U);
  EXPECT_EQ(summary.leaks.front().bytes, 40_MiB);
  EXPECT_EQ(summary.leaks.front().growth_bytes_per_step, 0);
}

}  // namespace
}  // namespace memreel
