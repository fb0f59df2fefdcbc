// SPDX-License-Identifier: Apache-2.0
// Buffers with lifetimes are imported as one heap and exported again; anything else is rejected with its line.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "formats/export/export.h"
#include "tests/bench/synthetic.h"
#include "tests/unit/import/import_support.h"

namespace memreel {
namespace {

using test::import_bytes;
using test::refusal;

/// "+10 -10 +20": sizes in the order of events, with '-' for a free.
std::string story(const Trace& trace) {
  std::string text;
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    text += (text.empty() ? "" : " ") + std::string(trace.events.kind(i) == EventKind::alloc ? "+" : "-") +
            std::to_string(trace.events.size(i).count);
  return text;
}

std::string exported(const Trace& trace) {
  std::ostringstream out;
  EXPECT_TRUE(export_trace(trace, "minimalloc", {}, out));
  return out.str();
}

TEST(Minimalloc, LifetimesAreHalfOpenAndEndsMakeRoom) {
  const auto trace = import_bytes("id,lower,upper,size\na,0,3,10\nb,3,9,20\nc,1,3,5\n");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->header.source, "minimalloc.csv");
  EXPECT_EQ(story(*trace), "+10 +5 -10 -5 +20 -20");
  EXPECT_EQ(trace->events.time(4), Nanoseconds{3});
  ASSERT_EQ(trace->tables.heaps.size(), 2U);
  EXPECT_EQ(trace->tables.heaps[1].level, Level::framework);
}

TEST(Minimalloc, AnEndIsTheLastInstantOfLife) {
  const auto trace = import_bytes("buffer_id,begin,end,size\n0,0,3,10\n1,3,9,20\n2,4,4,30\n");
  ASSERT_TRUE(trace);
  EXPECT_EQ(story(*trace), "+10 +20 -10 +30 -30 -20");
}

TEST(Minimalloc, ColumnsComeInAnyOrderAndLinesEndAsTheyLike) {
  const auto trace = import_bytes(
      "size, upper ,start,offset,hint,alignment,gaps\r\n7,2,1,0,-1,64,\r\n\r\n8,5,2,0,-1,64,3-4\r\n9,9,8,0,-1,64,");
  ASSERT_TRUE(trace);
  EXPECT_EQ(story(*trace), "+7 -7 +8 -8 +9 -9");
  EXPECT_EQ(trace->losses.unknown_actions, 1U);  // the gap
}

TEST(Minimalloc, MayHoldNothing) {
  const auto trace = import_bytes("id,lower,upper,size\n");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.count(), 0U);
}

TEST(Minimalloc, OtherTablesAreNotTakenForOne) {
  for (const char* text : {"id,lower,upper\n1,2,3\n", "lower,start,upper,size\n", "lower,upper,end,size\n",
                           "lower,upper,size,color\n", "hello\n"})
    EXPECT_NE(refusal(text).find("unrecognized format"), std::string::npos) << text;
}

TEST(Minimalloc, DefectsAreNamedByTheirLine) {
  const std::string header = "id,lower,upper,size\n0,0,1,8\n";
  EXPECT_NE(refusal(header + "1,2,3\n").find("line 3 has 3 fields"), std::string::npos);
  EXPECT_NE(refusal(header + "1,2,3,4,5\n").find("line 3 has 5 fields"), std::string::npos);
  EXPECT_NE(refusal(header + "\n1,2,three,4\n").find("line 4 has 'three'"), std::string::npos);
  EXPECT_NE(refusal(header + "1,2,3,-4\n").find("line 3 has '-4'"), std::string::npos);
  EXPECT_NE(refusal(header + "1,2,3,\n").find("line 3 has ''"), std::string::npos);
  EXPECT_NE(refusal(header + "1,2,3,4x\n").find("line 3 has '4x'"), std::string::npos);
  EXPECT_NE(refusal(header + "1,2,3,99999999999999999999\n").find("line 3 has"), std::string::npos);
  EXPECT_NE(refusal(header + "1,3,3,4\n").find("line 3 ends before it begins"), std::string::npos);
  EXPECT_NE(refusal(header + "1,2,3," + std::string(70'000, '1') + "\n").find("line 3 is longer"), std::string::npos);
  EXPECT_NE(refusal(header + "1,2,3,35184372088833\n").find("a number up to 35184372088832"), std::string::npos);
}

TEST(Minimalloc, EveryBeginningOfAFileIsATraceOrOneLine) {
  const std::string text = "id,lower,upper,size,gaps\n0,10,20,300,12-13\n1,15,30,4,\n";
  for (std::size_t length = 1; length < text.size(); ++length) {
    const auto trace = import_bytes(text.substr(0, length));
    EXPECT_TRUE(trace || trace.error().message().find('\n') == std::string::npos);
  }
}

TEST(Minimalloc, WhatIsExportedComesBack) {
  const Trace original = synthetic_trace({.events = 3000, .live = 50, .streams = 2});
  const auto once = import_bytes(exported(original));
  ASSERT_TRUE(once);
  const auto twice = import_bytes(exported(*once));
  ASSERT_TRUE(twice);
  EXPECT_EQ(story(*once), story(*twice));
  std::size_t allocations = 0;
  std::string sizes, sizes_back;
  for (std::size_t i = 0; i < original.events.count(); ++i)
    if (original.events.kind(i) == EventKind::alloc) sizes += std::to_string(original.events.size(i).count) + ' ';
  for (std::size_t i = 0; i < once->events.count(); ++i)
    if (once->events.kind(i) == EventKind::alloc) {
      sizes_back += std::to_string(once->events.size(i).count) + ' ';
      ++allocations;
    }
  EXPECT_EQ(allocations, original.events.allocation_count());
  EXPECT_EQ(sizes, sizes_back);
}

}  // namespace
}  // namespace memreel
