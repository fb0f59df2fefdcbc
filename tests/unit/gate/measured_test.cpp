// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/measured.h"
#include "analyzer/replay/prepare.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

TEST(Measured, AddsUpWhatEachFunctionHoldsAtThePeak) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.alloc(origin, {0x100000}, 2_MiB, build.stack({"step@/home/me/train.py:10"}));
  const AllocationId other = build.alloc(origin, {0x400000}, 3_MiB, build.stack({"step@/home/me/train.py:20"}));
  build.alloc(origin, {0x800000}, 1_MiB, build.stack({"load@/home/me/data.py:5"}));
  build.free(other);
  build.alloc(origin, {0x900000}, 1_MiB, build.stack({"after@/home/me/data.py:9"}));
  const std::vector<Prepared> heaps = prepare(build.trace());

  const auto measured = measure(Analysis(build.trace()), heaps, *parse_policies("bound.live,fit.best"), {});

  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->devices.size(), 1U);
  EXPECT_EQ(measured->devices[0].peak_live, 6_MiB);
  EXPECT_EQ(measured->devices[0].sites,
            (std::vector<SiteMetrics>{{"step", "train.py", 5_MiB}, {"load", "data.py", 1_MiB}}));
  const SiteMetrics& step = measured->devices[0].sites[0];
  EXPECT_EQ(step.of_stack, 3_MiB);  // at its line, not what all lines of the function hold
  EXPECT_EQ(step.stack.front(), "step (/home/me/train.py:20)");
  ASSERT_EQ(measured->policies.size(), 2U);
  EXPECT_EQ(measured->policies[0].policy, "bound.live");
  EXPECT_EQ(measured->policies[0].peak_reserved, 6_MiB);
  EXPECT_EQ(measured->policies[1].policy, "fit.best");
}

TEST(Measured, DevicesAreKeptApart) {
  TraceBuilder build;
  build.alloc(build.origin(HeapId{1}), {0x100000}, 2_MiB);
  build.alloc(build.origin(build.heap("torch.cuda", Level::framework, 1)), {0x100000}, 5_MiB);
  const auto measured = measure(Analysis(build.trace()), prepare(build.trace()), *parse_policies("bound.live"), {});
  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->devices.size(), 2U);
  EXPECT_EQ(measured->devices[1].peak_live, 5_MiB);
  EXPECT_EQ(measured->policies[1].device, 1);
}

// Whatever its name: a pool called "torchrec" does not follow the rules of PyTorch's allocator.
TEST(Measured, ReservedMemoryOfACustomPoolIsWhatWasRecorded) {
  for (const char* const name : {"my pool", "torchrec", "torch_cache"}) {
    TraceBuilder build;
    const OriginId pool = build.origin(build.heap(name, Level::framework, 0));
    build.event(EventKind::segment_alloc, pool, {0x100000}, 8_MiB);
    build.alloc(pool, {0x100000}, 2_MiB);
    build.alloc(pool, {0x300000}, 4_MiB);
    const auto measured =
        measure(Analysis(build.trace()), prepare(build.trace()), *parse_policies("torch.native"), {.recorded = true});
    ASSERT_TRUE(measured);
    const auto recorded = std::ranges::find(measured->policies, recorded_metrics, &PolicyMetrics::policy);
    ASSERT_NE(recorded, measured->policies.end());
    EXPECT_EQ(recorded->peak_reserved, 8_MiB);
    EXPECT_EQ(recorded->fragmentation_at_peak, 0.25);  // when most of it was in use
    EXPECT_FALSE(is_torch_heap(build.trace().tables, build.trace().tables[pool].heap));
  }
}

TEST(Measured, ReservedMemoryOfAPoolWithoutSegmentsIsNotKnown) {
  TraceBuilder build;
  build.alloc(build.origin(build.heap("my pool", Level::framework, 0)), {0x100000}, 2_MiB);
  for (const bool recorded : {false, true}) {
    const auto measured = measure(Analysis(build.trace()), prepare(build.trace()), {}, {.recorded = recorded});
    ASSERT_TRUE(measured);
    EXPECT_TRUE(measured->policies.empty());
    EXPECT_EQ(measured->devices.at(0).peak_live, 2_MiB);
  }
}

TEST(Measured, WhatAFlightRecorderSummedUpIsALowerBound) {
  TraceBuilder build;
  const HeapId heap = build.heap("my pool", Level::framework, 0);
  const OriginId pool = build.origin(heap);
  build.event(EventKind::segment_alloc, pool, {0x100000}, 200_MiB);
  build.alloc(pool, {0x100000}, 20_MiB, build.stack({"late@train.py:9"}));
  FoldedHistory& folded = build.trace().folded;
  folded.interval = Nanoseconds{1'000'000'000};
  folded.rows = {{.interval = 0, .heap = heap, .allocations = 1, .allocated = 150_MiB},
                 {.interval = 1, .heap = heap, .frees = 1, .freed = 150_MiB}};
  build.trace().losses.folded_events = 2;
  const auto specs = parse_policies("fit.best,torch.native");
  for (const std::string& only : {std::string(), std::string("my pool")}) {
    const DeviceModel device{.kind = DeviceModel::Kind::capacity, .capacity = 100_MiB};
    const auto measured = measure(Analysis(build.trace()), prepare(build.trace()), *specs,
                                  {.device = device, .recorded = true, .heap = only});
    ASSERT_TRUE(measured);
    EXPECT_EQ(measured->devices.at(0).peak_live, 150_MiB);
    EXPECT_TRUE(measured->devices.at(0).sites.empty());  // of another instant
    ASSERT_EQ(measured->policies.size(), 3U);
    for (const PolicyMetrics& policy : measured->policies) {
      EXPECT_GE(policy.peak_reserved, 150_MiB) << policy.policy;
      EXPECT_EQ(policy.exceeded, 100_MiB) << policy.policy;
      EXPECT_FALSE(policy.unjudged_fragmentation.empty()) << policy.policy;
    }
    EXPECT_EQ(measured->policies.back().peak_reserved, 200_MiB);
  }
}

TEST(Completeness, WhatATraceLacksIsNamed) {
  EXPECT_TRUE(what_is_missing(Trace{}).empty());
  Trace late;
  late.losses.preexisting_allocations = 3;
  EXPECT_EQ(what_is_missing(late).size(), 1U);
  Trace killed;
  killed.file_size = 100_B;
  EXPECT_EQ(what_is_missing(killed),
            (std::vector<std::string>{"the end: the recorder was killed, or is still writing"}));
  killed.read.has_footer = true;
  EXPECT_TRUE(what_is_missing(killed).empty());
}

TEST(Measured, AnUnknownPolicyIsAnError) {
  TraceBuilder build;
  build.alloc(build.origin(HeapId{1}), {0x100000}, 2_MiB);
  EXPECT_FALSE(measure(Analysis(build.trace()), prepare(build.trace()), *parse_policies("no.such"), {}));
}

}  // namespace
}  // namespace memreel
