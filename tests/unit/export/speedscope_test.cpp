// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "formats/export/export.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using nlohmann::json;
using testing::TraceBuilder;

json exported(const Trace& trace, const ExportOptions& options = {}) {
  std::ostringstream out;
  EXPECT_TRUE(export_trace(trace, "speedscope", options, out));
  return json::parse(out.str());
}

TEST(ExportSpeedscope, WeightsAreWhatStacksHoldAtThePeakOutermostFirst) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1}), side = build.origin(HeapId{1}, 0x10);
  const StackId stack = build.stack({"f@a.py:3", "m\xff@m.py:9"});
  build.alloc(origin, {0x1000}, 400_B, stack);
  build.alloc(side, {0x2000}, 100_B, stack);  // the same stack on several streams counts as one
  build.free(build.alloc(origin, {0x3000}, 7_B));
  const json file = exported(build.trace());
  EXPECT_EQ(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
  ASSERT_EQ(file["profiles"].size(), 1U);
  const json& profile = file["profiles"][0];
  EXPECT_EQ(profile["type"], "sampled");
  EXPECT_EQ(profile["unit"], "bytes");
  EXPECT_EQ(profile["weights"], json({7, 500}));
  EXPECT_EQ(profile["endValue"], 507);
  const json& frames = file["shared"]["frames"];
  EXPECT_EQ(frames.at(profile["samples"][0].at(0).get<std::size_t>())["name"], "(no stack)");
  const json& sample = profile["samples"][1];
  ASSERT_EQ(sample.size(), 2U);
  EXPECT_EQ(frames.at(sample[0].get<std::size_t>()), json({{"name", "m\xEF\xBF\xBD"}, {"file", "m.py"}, {"line", 9}}));
  EXPECT_EQ(frames.at(sample[1].get<std::size_t>())["name"], "f");
}

TEST(ExportSpeedscope, EveryHeapIsAProfileAtItsOwnPeak) {
  TraceBuilder build;
  const OriginId one = build.origin(HeapId{1}), other = build.origin(build.heap("torch.cuda", Level::framework, 1));
  build.free(build.alloc(one, {0x1000}, 10_B));
  build.free(build.alloc(other, {0x1000}, 20_B));
  const json profiles = exported(build.trace())["profiles"];
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles[0]["name"], "torch.cuda, device 0: live memory at its peak");
  EXPECT_EQ(profiles[0]["endValue"], 10);
  EXPECT_EQ(profiles[1]["endValue"], 20);
}

TEST(ExportSpeedscope, NothingIsAProfileToo) {
  TraceBuilder build;
  build.free(build.alloc(build.origin(HeapId{1}), {0x1000}, 10_B));
  const json profiles = exported(build.trace(), {.events = 3, .block_sizes = {}})["profiles"];
  ASSERT_EQ(profiles.size(), 1U);
  EXPECT_EQ(profiles[0]["endValue"], 0);
}

}  // namespace
}  // namespace memreel
