#include "analyzer/gate/measured.h"

#include <gtest/gtest.h>

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

  const auto measured = measure(build.trace(), heaps, *parse_policies("bound.live,fit.best"), {});

  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->devices.size(), 1U);
  EXPECT_EQ(measured->devices[0].peak_live, 6_MiB);
  EXPECT_EQ(measured->devices[0].sites,
            (std::vector<SiteFigures>{{"step", "train.py", 5_MiB}, {"load", "data.py", 1_MiB}}));
  ASSERT_EQ(measured->policies.size(), 2U);
  EXPECT_EQ(measured->policies[0].policy, "bound.live");
  EXPECT_EQ(measured->policies[0].peak_reserved, 6_MiB);
  EXPECT_EQ(measured->policies[1].policy, "fit.best");
}

TEST(Measured, DevicesAreKeptApart) {
  TraceBuilder build;
  build.alloc(build.origin(HeapId{1}), {0x100000}, 2_MiB);
  build.alloc(build.origin(build.heap("torch.cuda", Level::framework, 1)), {0x100000}, 5_MiB);
  const auto measured = measure(build.trace(), prepare(build.trace()), *parse_policies("bound.live"), {});
  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->devices.size(), 2U);
  EXPECT_EQ(measured->devices[1].peak_live, 5_MiB);
  EXPECT_EQ(measured->policies[1].device, 1);
}

TEST(Measured, AnUnknownPolicyIsAnError) {
  TraceBuilder build;
  build.alloc(build.origin(HeapId{1}), {0x100000}, 2_MiB);
  EXPECT_FALSE(measure(build.trace(), prepare(build.trace()), *parse_policies("no.such"), {}));
}

}  // namespace
}  // namespace memreel
