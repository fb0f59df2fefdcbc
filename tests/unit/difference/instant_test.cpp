// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/difference/instant.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/category/torch_program.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::Program;
using testing::TraceBuilder;

// Events 0 to 3: peak after the second.
TraceBuilder program() {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const AllocationId a = build.alloc(origin, {0x1000}, 4_KiB);
  build.alloc(origin, {0x2000}, 4_KiB);
  build.free(a);
  return build;
}

std::uint64_t events(std::string_view text, const Steps& steps = {}) {
  TraceBuilder build = program();
  const auto instant = parse_instant(text);
  EXPECT_TRUE(instant) << text;
  const auto count = events_at(*instant, Analysis(build.trace()), heap_histories(build.trace()).at(0), steps);
  EXPECT_TRUE(count) << text;
  return count ? *count : ~std::uint64_t{0};
}

TEST(Instant, CountsTheEventsThatHappened) {
  EXPECT_EQ(events("peak"), 2U);
  EXPECT_EQ(events("end"), 4U);
  EXPECT_EQ(events("event:0"), 1U);
  EXPECT_EQ(events("0s"), 1U);
  EXPECT_EQ(events("1us"), 2U);  // events are a microsecond apart
  EXPECT_EQ(events("0.0015ms"), 2U);
  EXPECT_EQ(events("3us"), 4U);
  EXPECT_EQ(events("step:2", {.mark = "step", .ends = {0, 2}}), 3U);
}

TEST(Instant, WhatATraceDoesNotHaveIsSaid) {
  TraceBuilder build = program();
  const HeapHistory heap = heap_histories(build.trace()).at(0);
  for (const auto& [text, mention] : {std::pair{"step:1", "marks no steps"},
                                      {"event:4", "4 events"},
                                      {"4us", "ends after 3 us"},
                                      {"1s", "ends after"}}) {
    const auto count = events_at(*parse_instant(text), Analysis(build.trace()), heap, {});
    ASSERT_FALSE(count) << text;
    EXPECT_NE(count.error().message().find(mention), std::string::npos) << count.error().message();
  }
  EXPECT_FALSE(events_at(*parse_instant("step:3"), Analysis(build.trace()), heap, {.mark = "step", .ends = {0, 2}}));
}

TEST(Instant, APhaseThatNeverRanIsRefused) {
  Program program;
  program.alloc(64, Program::parameter());
  program.free(program.alloc(10, Program::module()), Program::user(20));
  const Analysis analysis(program.build().trace());
  const HeapHistory heap = analysis.histories()[0];
  EXPECT_EQ(*events_at(Instant{AtPhase{Phase::forward}}, analysis, heap, {}), 2U);
  const auto count = events_at(Instant{AtPhase{Phase::backward}}, analysis, heap, {});
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().message(), "the trace has no phase 'backward' (it has: other, forward)");
}

// What it holds by then is not nothing.
TEST(Instant, AHeapWithoutAllocationsInAPhaseIsShownAtThePeakOfAnother) {
  Program program;
  TraceBuilder& build = program.build();
  build.alloc(build.origin(build.heap("cuda.host", Level::framework, -1)), {0x9000}, 4_KiB);
  program.alloc(64, Program::parameter());
  program.alloc(10, Program::module());
  const Analysis analysis(build.trace());
  ASSERT_EQ(analysis.histories().size(), 2U);
  for (const HeapHistory& heap : analysis.histories())
    EXPECT_EQ(*events_at(Instant{AtPhase{Phase::forward}}, analysis, heap, {}), 3U);
}

TEST(Instant, OtherTextsAreRefused) {
  for (const char* text :
       {"", "pea", "step:", "step:0", "step:-1", "event:x", "12", "s", "-1s", "1e30s", "nans", "12.5 m"})
    EXPECT_FALSE(parse_instant(text)) << text;
}

TEST(FileAt, IsAFileAndPerhapsAnInstant) {
  EXPECT_EQ(parse_file_at("run.reel")->file, "run.reel");
  EXPECT_FALSE(parse_file_at("run.reel")->instant);
  const auto at = parse_file_at("some@dir/run.reel@step:3");
  ASSERT_TRUE(at);
  EXPECT_EQ(at->file, "some@dir/run.reel");
  EXPECT_EQ(std::get<AfterStep>(*at->instant).number, 3U);
  EXPECT_FALSE(parse_file_at("run.reel@nonsense"));
}

TEST(FileAt, AFileWithThatNameIsMeant) {
  const auto file = std::filesystem::temp_directory_path() / "memreel_instant_test@peak";
  std::ofstream(file) << "x";
  const auto at = parse_file_at(file.string());
  std::filesystem::remove(file);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->file, file);
  EXPECT_FALSE(at->instant);
}

}  // namespace
}  // namespace memreel
