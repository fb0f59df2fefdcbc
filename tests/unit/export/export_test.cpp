// SPDX-License-Identifier: Apache-2.0
#include "formats/export/export.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "formats/export/snapshot_segments.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

std::vector<std::string> exported(const Trace& trace, std::string_view format) {
  std::ostringstream out;
  EXPECT_TRUE(export_trace(trace, format, {}, out));
  std::vector<std::string> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TraceBuilder sample() {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1}, 0x10);
  const StackId stack = build.stack({"f@a,b.py:3", "say \"hi\"@main.py:9"});
  build.free(build.alloc(origin, {0x1000}, 512_B, stack));
  build.event(EventKind::alloc_failed, origin, {}, 2_GiB);
  return build;
}

TEST(ExportCsv, WritesEveryEventWithItsStackQuoted) {
  const std::vector<std::string> lines = exported(sample().trace(), "csv");
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0],
            "event,time_ns,kind,device,heap,level,pool,stream,thread,address,size,allocation,value,mark,stack,"
            "category,layer,phase");
  EXPECT_EQ(lines[1],
            "0,0,alloc,0,torch.cuda,framework,,16,,4096,512,0,,,\"f (a,b.py:3);say \"\"hi\"\" (main.py:9)\",,,");
  EXPECT_EQ(lines[4], "3,3000,alloc_failed,0,torch.cuda,framework,,16,,,2147483648,,0,,,,,");
}

TEST(ExportJsonl, EveryLineIsAnObjectWithTheStackResolved) {
  const std::vector<std::string> lines = exported(sample().trace(), "jsonl");
  ASSERT_EQ(lines.size(), 4U);
  const nlohmann::json first = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(first["kind"], "alloc");
  EXPECT_EQ(first["address"], 4096);
  EXPECT_EQ(first["stack"][1]["function"], "say \"hi\"");
  EXPECT_EQ(first["stack"][0]["line"], 3);
  EXPECT_EQ(nlohmann::json::parse(lines[2])["allocation"], 0);
}

TEST(ExportJsonl, TextThatIsNotUtf8StaysValidJson) {
  TraceBuilder build;
  build.alloc(build.origin(HeapId{1}), {0x1000}, 1_B, build.stack({"\xff\xfe@x.py:1"}));
  EXPECT_TRUE(nlohmann::json::accept(exported(build.trace(), "jsonl")[0]));
}

TEST(ExportMinimalloc, ABufferLivesUntilTheDeviceIsDoneWithIt) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const AllocationId first = build.alloc(origin, {0x1000}, 512_B);
  build.free_requested(first);
  build.alloc(origin, {0x2000}, 100_B);
  build.free_completed(first);
  EXPECT_EQ(exported(build.trace(), "minimalloc"),
            (std::vector<std::string>{"id,lower,upper,size", "0,0,3,512", "1,2,4,100"}));
}

TEST(ExportMinimalloc, HeapsShareNoTime) {
  TraceBuilder build;
  const OriginId one = build.origin(HeapId{1}), other = build.origin(build.heap("torch.cuda", Level::framework, 1));
  const AllocationId first = build.alloc(one, {0x1000}, 512_B), second = build.alloc(other, {0x1000}, 100_B);
  build.free(second);
  build.free(first);
  EXPECT_EQ(exported(build.trace(), "minimalloc"),
            (std::vector<std::string>{"id,lower,upper,size", "0,0,5,512", "1,7,9,100"}));
}

TEST(ExportTorch, WhatIsBesidePyTorchIsLeftOut) {
  for (const bool has_torch : {true, false}) {
    TraceBuilder build;
    const OriginId driver = build.origin(build.heap("cuda.driver", Level::driver, 0));
    build.alloc(driver, {0x900000}, 1_MiB);
    if (has_torch)
      build.alloc(build.origin(HeapId{1}), {0x1000}, 512_B);
    else
      build.trace().tables.heaps[1].level = Level::driver;
    const std::vector<TorchSegment> segments = torch_segments_at_end(build.trace(), torch_heaps(build.trace()), {});
    ASSERT_EQ(segments.size(), 1U);
    EXPECT_EQ(segments[0].address.value, has_torch ? 0x1000U : 0x900000U);
  }
}

TEST(Export, UnknownFormatsNameTheKnownOnes) {
  std::ostringstream out;
  const Result<void> written = export_trace(Trace{}, "xls", {}, out);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message().find("csv, jsonl, minimalloc, perfetto, pprof, speedscope"), std::string::npos);
}

}  // namespace
}  // namespace memreel
