// SPDX-License-Identifier: Apache-2.0
// Replays on the fake driver: what they request and report, and that they leave nothing behind.
#include "analyzer/replay/device/real_pools.h"

#include <gtest/gtest.h>

#include "tests/unit/analyzer/history.h"
#include "tests/unit/device/fake_gpu.h"

namespace memreel {
namespace {

using gpu::OnDeviceOptions;
using gpu::OnDeviceResult;
using gpu::SegmentsBy;
using testing::fake_leaks;
using testing::History;
using testing::open_fake_gpu;

/// 3, 40 and 5 MiB, the second freed and reused, and an empty_cache; 45 MiB live at the peak.
Prepared program() {
  History history;
  history.alloc(3_MiB);
  const auto middle = history.alloc(40_MiB);
  history.free(middle);
  history.alloc(42_MiB, {}, 7);
  history.empty_cache();
  return history.prepared();
}

Result<std::vector<OnDeviceResult>> run(const std::string& spec, const Prepared& heap,
                                        const std::map<std::string, std::string>& settings = {},
                                        const OnDeviceOptions& options = {}) {
  const auto gpu = open_fake_gpu(settings);
  if (!gpu) return gpu.error();
  return gpu::replay_on_device(**gpu, {&heap, 1}, *parse_policies(spec), options);
}

std::uint64_t calls(const OnDeviceResult& result, DriverCall call) {
  return result.calls[static_cast<std::size_t>(call)].calls;
}

TEST(OnDevice, MallocMakesACallForEachRequest) {
  const auto results = run("cuda.malloc", program());
  ASSERT_TRUE(results);
  const OnDeviceResult& result = results->at(0);
  EXPECT_EQ(result.replay.peak_live, 45_MiB);
  EXPECT_EQ(result.replay.peak_reserved, 46_MiB);  // the fake driver has 2 MiB pages
  EXPECT_EQ(result.device_peak, 46_MiB);
  EXPECT_EQ(result.replay.failed_allocations, 0U);
  EXPECT_EQ(calls(result, DriverCall::malloc), 3U);
  EXPECT_EQ(calls(result, DriverCall::free), 1U);
  EXPECT_EQ(fake_leaks(), 0);
}

TEST(OnDevice, AsyncUsesAPoolOfItsOwn) {
  const auto results = run("cuda.async{release_threshold=max}", program());
  ASSERT_TRUE(results);
  const OnDeviceResult& result = results->at(0);
  EXPECT_EQ(result.device_peak, 64_MiB);
  EXPECT_EQ(result.replay.peak_reserved, 64_MiB);
  EXPECT_EQ(result.replay.policy.parameters.at("opportunistic"), "true");
  EXPECT_EQ(calls(result, DriverCall::malloc_async), 3U);
  EXPECT_EQ(calls(result, DriverCall::free_async), 1U);
  EXPECT_EQ(calls(result, DriverCall::sync), 1U) << "empty_cache waits";
  EXPECT_EQ(calls(result, DriverCall::unmap), 1U) << "and trims";
  EXPECT_EQ(fake_leaks(), 0);
}

TEST(OnDevice, AsyncMakesSynchronizationReal) {
  History history;
  history.alloc(1_MiB, {}, 5);
  history.alloc(1_MiB, {}, 7);
  history.synchronized(5, sync_stream);
  history.synchronized(5, sync_device);
  history.synchronized(7, sync_edge + index(history.stream(5)));
  const auto results = run("cuda.async", history.prepared());
  ASSERT_TRUE(results);
  EXPECT_EQ(calls(results->at(0), DriverCall::sync), 2U);
  EXPECT_EQ(fake_leaks(), 0);
}

TEST(OnDevice, PlacingPoliciesGetRealSegments) {
  for (const SegmentsBy how : {SegmentsBy::malloc, SegmentsBy::map}) {
    const auto results = run("torch.native", program(), {}, {.segments_by = how});
    ASSERT_TRUE(results);
    const OnDeviceResult& result = results->at(0);
    EXPECT_EQ(result.replay.peak_reserved, result.device_peak);
    EXPECT_EQ(calls(result, DriverCall::malloc), how == SegmentsBy::malloc ? result.replay.driver_calls.malloc : 0);
    EXPECT_EQ(calls(result, DriverCall::map), how == SegmentsBy::map ? result.replay.driver_calls.malloc : 0);
    EXPECT_EQ(fake_leaks(), 0);
  }
}

TEST(OnDevice, PoliciesWithADeviceOfTheirOwnGetRealMemoryToo) {
  for (const char* spec : {"plan.size", "torch.native{release=2.13}", "torch.expandable"}) {
    SCOPED_TRACE(spec);
    const auto results = run(spec, program());
    ASSERT_TRUE(results);
    EXPECT_GE(results->at(0).device_peak, 45_MiB);
    EXPECT_EQ(results->at(0).device_peak, results->at(0).replay.peak_reserved);
    const DriverCalls& made = results->at(0).replay.driver_calls;
    EXPECT_GE(made.malloc_bytes + made.map_bytes, 45_MiB);
    EXPECT_EQ(fake_leaks(), 0);
  }
}

TEST(OnDevice, GrowingRangesAreMappedAndShrunk) {
  History history;
  history.alloc(3_MiB);
  const auto last = history.alloc(20_MiB);
  history.free(last);
  history.empty_cache();  // returns 20 MiB, from a mapping of 20 and one of 4
  history.alloc(9_MiB);
  const auto results = run("fit.best", history.prepared());
  ASSERT_TRUE(results) << results.error().message();
  EXPECT_EQ(results->at(0).replay.peak_reserved, 24_MiB);
  EXPECT_EQ(results->at(0).device_peak, 24_MiB);
  EXPECT_EQ(fake_leaks(), 0);
}

TEST(OnDevice, AShrunkRangeKeepsWhatItNeeds) {
  History history;
  const auto first = history.alloc(40_MiB);
  const auto second = history.alloc(1_MiB);
  history.free(first);
  history.alloc(10_MiB);  // in front
  history.free(second);
  history.empty_cache();  // splits the first mapping
  history.alloc(50_MiB);
  const auto results = run("fit.best", history.prepared());
  ASSERT_TRUE(results) << results.error().message();
  EXPECT_EQ(results->at(0).replay.end_reserved, 60_MiB);
  EXPECT_EQ(results->at(0).device_peak, 60_MiB);
  EXPECT_EQ(fake_leaks(), 0);
}

TEST(OnDevice, RefusalsAreTheDevices) {
  for (const char* spec : {"cuda.malloc", "cuda.async", "torch.native", "fit.best"}) {
    const auto results = run(spec, program(), {{"FAKE_CUDA_MEMORY", std::to_string(44U << 20U)}});
    ASSERT_TRUE(results) << spec;
    EXPECT_GT(results->at(0).replay.failed_allocations, 0U) << spec;
    EXPECT_EQ(fake_leaks(), 0) << spec;
  }
}

TEST(OnDevice, ACapacityIsKept) {
  for (const char* spec : {"cuda.malloc", "cuda.async", "torch.native"}) {
    const auto results = run(spec, program(), {}, {.device = DeviceModel{DeviceModel::Kind::capacity, 44_MiB}});
    ASSERT_TRUE(results) << spec;
    EXPECT_GT(results->at(0).replay.failed_allocations, 0U) << spec;
    EXPECT_LE(results->at(0).device_peak, 46_MiB) << spec;
    EXPECT_EQ(fake_leaks(), 0) << spec;
  }
}

TEST(OnDevice, ABrokenDriverIsAnError) {
  const std::map<std::string, std::string> broken_by_spec{{"cuda.malloc", "cuMemAlloc_v2"},
                                                          {"cuda.async", "cuMemAllocFromPoolAsync"},
                                                          {"cuda.async{release_threshold=max}", "cuMemPoolCreate"},
                                                          {"torch.native", "cuMemAlloc_v2"},
                                                          {"fit.best", "cuMemCreate"}};
  for (const auto& [spec, function] : broken_by_spec) {
    const auto results = run(spec, program(), {{"FAKE_CUDA_BROKEN", function}});
    ASSERT_FALSE(results) << spec;
    EXPECT_NE(results.error().message().find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos) << spec;
    EXPECT_EQ(fake_leaks(), 0) << spec;
  }
}

TEST(OnDevice, WhatCanNotBeRunIsRefused) {
  const auto bound = run("bound.live", program());
  ASSERT_FALSE(bound);
  EXPECT_NE(bound.error().message().find("bound.live takes no memory"), std::string::npos);
  const auto pages = run("fit.best{page=64KiB}", program());
  ASSERT_FALSE(pages);
  EXPECT_NE(pages.error().message().find("multiple of 2MiB"), std::string::npos);
  EXPECT_FALSE(run("cuda.async{release_threshold=many}", program()));
  EXPECT_FALSE(run("no.such", program()));
}

TEST(UnitCosts, AreMeasuredForEveryKindOfCall) {
  {
    const auto gpu = open_fake_gpu();
    ASSERT_TRUE(gpu);
    const UnitCosts costs = gpu::measure_unit_costs(**gpu);
    EXPECT_FALSE((*gpu)->error()) << (*gpu)->error()->message();
    EXPECT_EQ(costs.measured_on, "Fake GPU, CUDA 12.4");
    for (const UnitCost& cost : costs.of) EXPECT_GE(cost.fixed_seconds, 0);
  }
  EXPECT_EQ(fake_leaks(), 0);
}

}  // namespace
}  // namespace memreel
