// SPDX-License-Identifier: Apache-2.0
// Exports for heap profilers: a trace small enough to check by eye.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "formats/export/export.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

nlohmann::json document(const Trace& trace, std::string_view format) {
  std::ostringstream out;
  EXPECT_TRUE(export_trace(trace, format, {}, out));
  return nlohmann::json::parse(out.str());
}

TraceBuilder two_sites() {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const StackId stack = build.stack({"f@model.py:3", "\xff@train.py:9"});
  const AllocationId first = build.alloc(origin, {0x1000}, 512_B, stack);
  build.alloc(origin, {0x2000}, 100_B);
  build.free(first);
  build.alloc(build.origin(build.heap("host", Level::driver, -1)), {0x9000}, 64_B);
  return build;
}

TEST(ExportDhat, SumsByStack) {
  const nlohmann::json dhat = document(two_sites().trace(), "dhat");
  ASSERT_EQ(dhat["pps"].size(), 2U);  // host memory is not a device's
  const nlohmann::json& point = dhat["pps"][0];
  EXPECT_EQ(point["tb"], 512);
  EXPECT_EQ(point["tl"], 2);  // microseconds
  EXPECT_EQ(point["gb"], 512);
  EXPECT_EQ(point["eb"], 0);
  EXPECT_EQ(dhat["ftbl"][point["fs"][0].get<std::size_t>()], "0x0: f (model.py:3)");
  EXPECT_EQ(dhat["ftbl"][point["fs"][2].get<std::size_t>()], "device 0 torch.cuda");
  EXPECT_EQ(dhat["pps"][1]["eb"], 100);
  EXPECT_EQ(dhat["tg"], 1);
}

TEST(ExportFirefox, EachHeapIsAThread) {
  const nlohmann::json profile = document(two_sites().trace(), "firefox");
  ASSERT_EQ(profile["threads"].size(), 2U);
  const nlohmann::json& allocations = profile["threads"][0]["nativeAllocations"];
  EXPECT_EQ(allocations["weight"], nlohmann::json({512, 100, -512}));
  EXPECT_EQ(allocations["memoryAddress"], nlohmann::json({1, 2, 1}));
  EXPECT_EQ(allocations["time"], nlohmann::json({0.0, 0.001, 0.002}));
  const nlohmann::json& shared = profile["shared"];
  const std::size_t stack = allocations["stack"][0];
  EXPECT_EQ(shared["stackTable"]["prefixOffset"][stack], 1);
  const std::size_t frame = shared["stackTable"]["frame"][stack];
  EXPECT_EQ(shared["stringArray"][shared["funcTable"]["name"][frame].get<std::size_t>()], "f");
  EXPECT_EQ(shared["frameTable"]["line"][frame], 3);
}

TEST(ExportProfilers, AProgramWithoutADeviceHasHostMemory) {
  Trace trace = two_sites().trace();
  for (Heap& heap : trace.tables.heaps) heap.device = -1;
  const nlohmann::json dhat = document(trace, "dhat");
  ASSERT_EQ(dhat["pps"].size(), 3U);
  EXPECT_EQ(dhat["ftbl"][dhat["pps"][0]["fs"][2].get<std::size_t>()], "host memory torch.cuda");
}

TEST(ExportProfilers, AnEmptyTraceIsAnEmptyProfile) {
  const Trace empty;
  EXPECT_EQ(document(empty, "firefox")["threads"].size(), 0U);
  EXPECT_EQ(document(empty, "dhat")["pps"].size(), 0U);
  std::ostringstream out;
  EXPECT_TRUE(export_trace(empty, "heaptrack", {}, out));
  EXPECT_TRUE(export_trace(empty, "torch", {}, out));
}

}  // namespace
}  // namespace memreel
