// SPDX-License-Identifier: Apache-2.0
// Chrome traces of torch.profiler: what their memory events say, directly and through their totals.
#include <gtest/gtest.h>

#include <string>

#include "formats/model/stack_text.h"
#include "formats/model/value_check.h"
#include "tests/unit/import/import_support.h"

namespace memreel {
namespace {

using test::Document;
using test::import_bytes;
using test::kinds;
using test::refusal;
using enum EventKind;

Document memory_event(double ts, std::uint64_t address, std::int64_t bytes, std::uint64_t total, int device = 0,
                      int type = 1) {
  return {{"ph", "i"},
          {"cat", "cpu_instant_event"},
          {"s", "t"},
          {"name", "[memory]"},
          {"pid", 40},
          {"tid", 41},
          {"ts", ts},
          {"args",
           {{"Total Allocated", total},
            {"Bytes", bytes},
            {"Addr", address},
            {"Device Id", device},
            {"Device Type", type}}}};
}

Document slice(const std::string& category, const std::string& name, double ts, double dur, int tid = 41) {
  return {{"ph", "X"}, {"cat", category}, {"name", name}, {"pid", 40}, {"tid", tid}, {"ts", ts}, {"dur", dur}};
}

std::string profile(const std::vector<Document>& events, Document more = Document::object()) {
  more["schemaVersion"] = 1;
  more["traceEvents"] = events;
  return more.dump();
}

Trace trace_of_profile(const std::string& text) {
  Result<Trace> trace = import_bytes(text);
  EXPECT_TRUE(trace) << trace.error().message();
  return trace ? *std::move(trace) : Trace{};
}

std::vector<std::string> frames(const Trace& trace, std::size_t event) {
  std::vector<std::string> found;
  for (StackId s = trace.events.stack(event); s != StackId::none; s = trace.tables[s].caller) {
    const Frame& frame = trace.tables[trace.tables[s].frame];
    found.push_back(trace.tables[frame.file] + ":" + std::to_string(frame.line) + " " + trace.tables[frame.function]);
  }
  return found;
}

TEST(Kineto, EventsAreInOrderOfTimeAndTotalsProveThemComplete) {
  const Trace trace =
      trace_of_profile(profile({memory_event(5.5, 8192, 1024, 1536), memory_event(4.25, 4096, 512, 512),
                                memory_event(7, 4096, -512, 1024), memory_event(7, 4096, 2048, 3072)},
                               {{"baseTimeNanoseconds", 1'000'000}, {"distributedInfo", {{"rank", 3}}}}));
  EXPECT_EQ(trace.header.source, "torch.profiler");
  EXPECT_EQ(trace.header.process, 40U);
  EXPECT_EQ(trace.header.environment, (Variables{{"RANK", "3"}}));
  EXPECT_EQ(kinds(trace), (std::vector{alloc, alloc, free_requested, alloc}));
  EXPECT_TRUE(std::ranges::equal(trace.events.sizes(), std::vector{512_B, 1024_B, 512_B, 2048_B}));
  EXPECT_EQ(trace.events.time(0), Nanoseconds{1'004'250});
  EXPECT_EQ(trace.events.allocation(2), trace.events.allocation(0));
  EXPECT_EQ(trace.tables[trace.tables.heaps[1].name], "torch.cuda");
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(Kineto, ABreakInTheTotalsIsAMissingEvent) {
  const Trace trace = trace_of_profile(profile({memory_event(1, 4096, 512, 512), memory_event(2, 8192, 512, 4096)}));
  EXPECT_EQ(trace.losses.ring_full, 1U);
}

TEST(Kineto, ReservedBytesAreSampledWhereTheyChange) {
  const auto with_reserved = [](Document event, std::uint64_t reserved) {
    event["args"]["Total Reserved"] = reserved;
    return event;
  };
  const Trace trace = trace_of_profile(profile(
      {with_reserved(memory_event(1, 4096, 512, 512), 4096), with_reserved(memory_event(2, 8192, 1024, 1536), 4096),
       with_reserved(memory_event(3, 16384, 8192, 9728), 16384),
       with_reserved(memory_event(4, 4096, -512, 9216), 0),  // less than is allocated
       memory_event(5, 8192, -1024, 8192)}));
  EXPECT_EQ(kinds(trace), (std::vector{alloc, memory_info, alloc, alloc, memory_info, free_requested, free_requested}));
  EXPECT_EQ(trace.events.size(1), 512_B);
  EXPECT_EQ(trace.events.value(1), 3584U);
  EXPECT_EQ(trace.events.size(4), 9728_B);
  EXPECT_EQ(trace.events.value(4), 6656U);
}

TEST(Kineto, WhatWasThereBeforeIsInTheFirstTotal) {
  const Trace trace =
      trace_of_profile(profile({memory_event(1, 8192, 512, 10'512), memory_event(2, 4096, -1024, 9'488)}));
  EXPECT_EQ(kinds(trace), (std::vector{alloc, alloc, alloc, free_requested}));
  EXPECT_EQ(trace.events.size(0), 1024_B);  // freed later: matched by address
  EXPECT_EQ(trace.events.address(0), Address{4096});
  EXPECT_EQ(trace.events.size(1), 8976_B);  // all the rest
  EXPECT_EQ(frames(trace, 1), std::vector{":0 " + std::string(preexisting_frame)});
  EXPECT_EQ(trace.losses.preexisting_allocations, 2U);
  EXPECT_TRUE(trace.losses.began_late);
}

TEST(Kineto, StacksAreWhatRanOnTheThread) {
  const Trace trace = trace_of_profile(profile(
      {memory_event(15, 4096, 512, 512), memory_event(25, 8192, 512, 1024), memory_event(95, 12288, 512, 1536),
       slice("cpu_op", "aten::add", 10, 10), slice("python_function", "train.py(41): step", 10, 50),
       slice("python_function", "nn.Module: MLP_3", 12, 90), slice("python_function", "other.py(1): f", 0, 100, 7),
       slice("kernel", "gemm", 0, 100), slice("user_annotation", "ProfilerStep#2", 5, 55)}));
  EXPECT_EQ(kinds(trace), (std::vector{mark, alloc, alloc, mark, alloc}));
  // Because of a clock error the module's call outlasts its caller; it ends with the caller.
  EXPECT_EQ(frames(trace, 1), (std::vector<std::string>{":0 nn.Module: MLP_3", ":0 aten::add", "train.py:41 step"}));
  EXPECT_EQ(frames(trace, 2), (std::vector<std::string>{"train.py:41 step"}));
  EXPECT_EQ(frames(trace, 4), std::vector<std::string>{});
  const Frame& module = trace.tables[trace.tables[trace.events.stack(1)].frame];
  EXPECT_EQ(trace.tables[module.instance], "MLP 3");
  EXPECT_EQ(trace.tables[trace.tables[MarkId{static_cast<std::uint32_t>(trace.events[0].value)}].name],
            "ProfilerStep#2");
}

TEST(Kineto, EachDeviceHasAHeapAndTheHostHasNone) {
  const Trace trace =
      trace_of_profile(profile({memory_event(1, 4096, 512, 512, 1), memory_event(2, 4096, 512, 512, 0, 6),
                                memory_event(3, 4096, 64, 64, -1, 0)}));
  ASSERT_EQ(trace.tables.heaps.size(), 3U);
  EXPECT_EQ(trace.tables.heaps[1].device, 0);
  EXPECT_EQ(trace.tables.heaps[2].device, 1);
  EXPECT_EQ(trace.losses.unknown_actions, 1U);
}

TEST(Kineto, FailuresAndUnseenFrees) {
  Document failed = memory_event(3, 0, 1 << 30, 1024);
  failed["name"] = "[OutOfMemory]";
  failed["args"].erase("Addr");
  const Trace trace =
      trace_of_profile(profile({memory_event(1, 4096, 512, 512), memory_event(2, 4096, 512, 1024), failed}));
  EXPECT_EQ(kinds(trace), (std::vector{alloc, free_requested, alloc, alloc_failed}));
  EXPECT_EQ(trace.events.size(3), 1_GiB);
  EXPECT_EQ(trace.losses.hook_refused, 1U);
}

TEST(Kineto, TimesSinceTheEpochKeepTheirNanoseconds) {
  const std::string text =
      R"({"traceEvents": [{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1623142623529058, "args": )"
      R"({"Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 4096}}]})";
  EXPECT_EQ(trace_of_profile(text).events.time(0), Nanoseconds{1'623'142'623'529'058'000});
}

TEST(Kineto, SaysWhatAProfileLacks) {
  Document old = memory_event(1, 4096, 512, 512);
  old["args"].erase("Addr");
  EXPECT_NE(refusal(profile({old})).find("no addresses"), std::string::npos);
  EXPECT_NE(refusal(profile({slice("cpu_op", "f", 1, 2)})).find("profile_memory=True"), std::string::npos);
  EXPECT_NE(refusal(profile({memory_event(1, 1, 1, 1, -1, 0)})).find("of host memory"), std::string::npos);
}

TEST(Kineto, ImpossibleNumbersAndCutFilesAreRefused) {
  for (const Document& event :
       {memory_event(1, max_address.value + 1, 512, 512), memory_event(1, 4096, 512, 1ULL << 60U),
        memory_event(1, 4096, std::numeric_limits<std::int64_t>::min(), 0)})
    EXPECT_NE(refusal(profile({event})).find("no device has"), std::string::npos) << refusal(profile({event}));
  EXPECT_NE(refusal(profile({memory_event(1, 4096, 512, 512)}, {{"baseTimeNanoseconds", -1}})).find("out of range"),
            std::string::npos);
  const std::string whole =
      profile({slice("python_function", "train.py(41): step", 10, 50), memory_event(15, 4096, 512, 512)});
  for (std::size_t size = whole.find("traceEvents"); size < whole.size(); ++size)
    ASSERT_EQ(refusal(whole.substr(0, size)).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace memreel
