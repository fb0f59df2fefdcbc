// SPDX-License-Identifier: Apache-2.0
// Exported snapshots are unchanged when imported again.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "formats/export/export.h"
#include "formats/model/stack_text.h"
#include "tests/unit/import/import_support.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using test::kinds;
using testing::TraceBuilder;
using enum EventKind;

Trace again(const Trace& trace, const ExportOptions& options = {}) {
  std::ostringstream out;
  EXPECT_TRUE(export_trace(trace, "torch", options, out));
  Result<Trace> imported = test::import_bytes(out.str());
  EXPECT_TRUE(imported) << imported.error().message();
  return imported ? *std::move(imported) : Trace{};
}

TEST(ExportTorch, AHistoryComesBack) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1}, 0x7F00'0000'1234);
  const StackId stack = build.stack({"f@model.py:3", "main@train.py:9"});
  build.event(segment_alloc, origin, {0x10000}, 2_MiB);
  const AllocationId first = build.alloc(origin, {0x10000}, 500_B, stack);
  build.alloc(origin, {0x10400}, 700_B, stack);
  build.free(first);
  build.event(alloc_failed, origin, {}, 2_GiB, stack);
  const Trace trace = again(build.trace());
  EXPECT_EQ(trace.header.source, "torch.snapshot");
  EXPECT_EQ(kinds(trace), (std::vector{segment_alloc, alloc, alloc, free_requested, free_completed, alloc_failed}));
  EXPECT_EQ(trace.events.size(1), 500_B);
  EXPECT_EQ(trace.events.time(1), Nanoseconds{1000});
  EXPECT_EQ(trace.tables[trace.tables[trace.events.origin(1)].stream].handle, 0x7F00'0000'1234U);
  EXPECT_EQ(trace.events.size(5), 2_GiB);
  const std::vector<FrameText> frames = frames_of(trace.tables, trace.events.stack(1));
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(text_of(frames[0]), "f (model.py:3)");
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(ExportTorch, ADriversAllocationIsASegmentOfOneBlock) {
  TraceBuilder build;
  const OriginId driver = build.origin(build.heap("cuda.driver", Level::driver, 1));
  build.free(build.alloc(driver, {0x20000}, 3_MiB));
  build.alloc(driver, {0x90000}, 1_MiB);
  const Trace trace = again(build.trace());
  // Read as PyTorch's, whose allocator returns memory on empty_cache().
  EXPECT_EQ(kinds(trace), (std::vector{segment_alloc, alloc, free_requested, free_completed, empty_cache, segment_free,
                                       segment_alloc, alloc}));
  EXPECT_EQ(trace.tables[trace.tables[trace.events.origin(0)].heap].device, 1);
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(ExportTorch, PoolsInPoolsAndHostMemoryAreLeftOut) {
  TraceBuilder build;
  const HeapId inner = build.heap("inner", Level::framework, 0);
  Trace& whole = build.trace();
  whole.tables.heaps[index(inner)].parent = HeapId{1};
  build.alloc(build.origin(HeapId{1}), {0x1000}, 512_B);
  build.alloc(build.origin(inner), {0x1000}, 64_B);
  build.alloc(build.origin(build.heap("host", Level::driver, -1)), {0x5000}, 64_B);
  EXPECT_EQ(test::count(again(whole), alloc), 1U);
}

TEST(ExportTorch, ManyEventsAndLongTextsComeBack) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const StackId stack = build.stack({std::string(700, 'x') + "@a.py:1"});
  build.event(segment_alloc, origin, {0x10000}, 20_MiB);
  for (std::uint64_t i = 0; i < 2500; ++i) build.alloc(origin, {0x10000 + 512 * i}, Bytes{1 + i % 512}, stack);
  const Trace trace = again(build.trace());
  EXPECT_EQ(test::count(trace, alloc), 2500U);
  EXPECT_EQ(trace.events.size(2000), Bytes{1 + 1999 % 512});
}

TEST(ExportTorch, RangesComeBack) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  Trace& whole = build.trace();
  whole.tables.marks.push_back({.name = build.string("step"), .phase = MarkPhase::end});
  build.push({.kind = mark, .origin = origin, .value = 1});
  build.alloc(origin, {0x1000}, 512_B);
  const Trace trace = again(whole);
  ASSERT_EQ(trace.events.kind(0), mark);
  const Mark& step = trace.tables.marks[trace.events[0].value];
  EXPECT_EQ(trace.tables[step.name], "step");
  EXPECT_EQ(step.phase, MarkPhase::end);
}

}  // namespace
}  // namespace memreel
