// SPDX-License-Identifier: Apache-2.0
// RMM logs: the result of each kind of line, and of invalid lines.
#include <gtest/gtest.h>

#include <string>

#include "formats/import/rmm/rmm_log.h"
#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

using namespace std::chrono_literals;

const std::string header = "Thread,Time,Action,Pointer,Size,Stream\n";

Trace imported_log(const std::string& log) {
  Result<Trace> trace = import_bytes(log);
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().message());
  return trace ? *std::move(trace) : Trace{};
}

const Origin& origin(const Trace& trace, std::size_t event) { return trace.tables[trace.events[event].origin]; }

TEST(RmmLog, BecomesRequestsAndFrees) {
  const Trace trace = imported_log(header +
                                   "2342727,15:47:02.841961,allocate,0x10012400000,1048576,0x0\n"
                                   "2342728,15:47:02.841977,allocate failure,(nil),99,0x7f8a38001020\n"
                                   "2342727,15:47:03.000000,free,0x10012400000,1048576,0x0\n");
  ASSERT_EQ(kinds(trace), (std::vector{EventKind::alloc, EventKind::alloc_failed, EventKind::free_requested}));
  const Event alloc = trace.events[0], failure = trace.events[1], free = trace.events[2];
  EXPECT_EQ(alloc.address, Address{0x10012400000});
  EXPECT_EQ(alloc.size, 1_MiB);
  EXPECT_EQ(alloc.time, 15h + 47min + 2s + 841961us);
  EXPECT_EQ(failure.size, 99_B);
  EXPECT_EQ(free.allocation, AllocationId{0});
  EXPECT_EQ(trace.tables[origin(trace, 0).thread].tid, 2342727U);
  EXPECT_EQ(trace.tables[origin(trace, 1).thread].tid, 2342728U);
  EXPECT_EQ(trace.tables[origin(trace, 1).stream].handle, 0x7f8a38001020U);
  const Heap& heap = trace.tables[origin(trace, 0).heap];
  EXPECT_EQ(trace.tables[heap.name], "rmm");
  EXPECT_EQ(heap.level, Level::framework);
  EXPECT_FALSE(heap.observes_completion);
  EXPECT_EQ(trace.header.source, "rmm.log");
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(RmmLog, ThePointerOfAFreedBlockIsGivenAgain) {
  const Trace trace = imported_log(
      "1,00:00:00.000001,allocate,0xff,8,0x0\n1,00:00:00.000002,free,0xff,8,0x0\n"
      "1,00:00:00.000003,allocate,0xff,9,0x0\n1,00:00:00.000004,free,0xff,9,0x0\n");
  EXPECT_EQ(trace.events[1].allocation, AllocationId{0});
  EXPECT_EQ(trace.events[3].allocation, AllocationId{1});
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(RmmLog, TimesGoOnAfterMidnight) {
  const Trace trace = imported_log(
      "1,23:59:59.999999,allocate,0x100,8,0x0\n1,00:00:00.000002,allocate,0x200,8,0x0\n"
      "2,23:59:59.999998,allocate,0x300,8,0x0\n1,00:00:00.000003,allocate,0x400,8,0x0\n"
      "1,23:00:00.000000,allocate,0x500,8,0x0\n");
  EXPECT_EQ(trace.events[1].time - trace.events[0].time, 3us);
  EXPECT_EQ(trace.events[2].time - trace.events[0].time, -1us) << "another thread was overtaken";
  EXPECT_EQ(trace.events[3].time - trace.events[1].time, 1us);
  const Trace later = imported_log(
      "1,23:00:00.000000,allocate,0x100,8,0x0\n1,06:00:00.000000,allocate,0x200,8,0x0\n"
      "1,17:00:00.000000,allocate,0x300,8,0x0\n1,01:00:00.000000,allocate,0x400,8,0x0\n");
  EXPECT_EQ(later.events[3].time - later.events[0].time, 26h);
}

TEST(RmmLog, TimesOfTheDebugLogGoOnAfterMidnight) {
  const Trace trace = imported_log(
      "[100][23:59:59:000000][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n"
      "[100][23:59:59:000001][debug ] [A][Stream 0x0][Upstream 256B][0x7f0000000000]\n"
      "[101][00:00:00:000010][debug ] [A][Stream 0x0][Upstream 256B][0x7f0000001000]\n"
      "[100][23:59:59:999990][debug ] [D][Stream 0x0][256B][0x7f0000000000]\n"
      "[101][00:00:01:000010][debug ] [A][Stream 0x0][Upstream 256B][0x7f0000002000]\n");
  ASSERT_EQ(trace.events.count(), 4U);
  EXPECT_EQ(trace.events[1].time - trace.events[0].time, 1s - 1us + 10us);
  EXPECT_EQ(trace.events[2].time - trace.events[1].time, -20us) << "another thread was overtaken";
  EXPECT_EQ(trace.events[3].time - trace.events[1].time, 1s);
}

TEST(RmmLog, OlderLogsHaveNoThreadsAndDecimalStreams) {
  const Trace trace = imported_log("Time,Action,Pointer,Size,Stream\n15:47:02:841961,allocate,0x7fae06600000,80,12\n");
  ASSERT_EQ(trace.events.count(), 1U);
  EXPECT_EQ(trace.events[0].time, 15h + 47min + 2s + 841961us);
  EXPECT_EQ(trace.tables[origin(trace, 0).stream].handle, 12U);
  EXPECT_EQ(origin(trace, 0).thread, ThreadId::unknown);
}

TEST(RmmLog, StreamsAndPointersComeInSeveralForms) {
  rmm::LogRecord record;
  const auto stream = [&](const std::string& text) {
    EXPECT_EQ(rmm::parse("1,00:00:00.000000,free,0x1,1," + text, record), nullptr) << text;
    return record.stream;
  };
  EXPECT_EQ(stream("0"), 0U);
  EXPECT_EQ(stream("0x0"), 0U);
  EXPECT_EQ(stream("(nil)"), 0U);
  EXPECT_EQ(stream("0x2"), 2U);
  EXPECT_EQ(stream("0xFfffFfffFfffFfff"), ~std::uint64_t{0});
  EXPECT_EQ(stream("55d2c8a3f0e0"), 0x55d2c8a3f0e0U);
  EXPECT_EQ(stream("94325"), 94325U);
}

TEST(RmmLog, RequestsForNothingHoldNothing) {
  const Trace trace = imported_log(
      "1,00:00:00.000001,allocate,(nil),0,0x0\n1,00:00:00.000002,allocate,0x0,0,0x0\n"
      "1,00:00:00.000003,free,(nil),0,0x0\n1,00:00:00.000004,allocate,0x100,8,0x0\n");
  EXPECT_EQ(trace.events.count(), 1U);
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(RmmLog, FreesOfWhatIsNotLiveAreCounted) {
  const Trace trace = imported_log("1,00:00:00.000001,free,0x100,8,0x0\n1,00:00:00.000002,allocate,0x200,8,0x0\n");
  EXPECT_EQ(trace.losses.unmatched_frees, 1U);
  EXPECT_EQ(trace.events.count(), 2U);
}

TEST(RmmLog, AnAllocationEndsTheOneThatLivesAtItsAddress) {
  const Trace trace = imported_log("1,00:00:00.000001,allocate,0x100,8,0x0\n1,00:00:00.000002,allocate,0x100,9,0x0\n");
  ASSERT_EQ(kinds(trace), (std::vector{EventKind::alloc, EventKind::free_requested, EventKind::alloc}));
  EXPECT_EQ(trace.events[1].allocation, AllocationId{0});
  EXPECT_EQ(trace.losses.hook_refused, 1U);
}

TEST(RmmLog, ACutOffEndIsCounted) {
  const std::string whole = header + "1,00:00:00.000001,allocate,0x100,8,0x0\n1,00:00:00.000002,allocate,0x200,8,0x0\n";
  for (std::size_t cut = 4; cut < 35; ++cut) {
    const Trace trace = imported_log(whole.substr(0, whole.size() - cut));
    EXPECT_EQ(trace.events.count(), 1U) << cut;
    EXPECT_EQ(trace.losses.unknown_actions, 1U) << cut;
  }
  EXPECT_EQ(imported_log(whole.substr(0, whole.size() - 1)).events.count(), 2U)
      << "only the end of the line is missing";
}

TEST(RmmLog, OtherOutputInBetweenIsSkippedAndCounted) {
  const Trace trace = imported_log(
      "21/11/04 INFO something starts\r\n\r\n1,00:00:00.000001,allocate,0x100,8,0x0\r\n" + header +
      "1,00:00:00.000002,allocate,0x200,18446744073709551616,0x0\n1,00:00:00.000003,allocate,0x300,8,0x0\r\n" +
      "1,00:00:00.000004,allocate,0x400,8,0x0\n" + std::string(200'000, 'x') +
      "\n1,00:00:00.000005,allocate,0x500,8,0x0");
  EXPECT_EQ(trace.events.count(), 4U);
  EXPECT_EQ(trace.losses.unknown_actions, 3U);
}

TEST(RmmLog, WhatIsMostlySomethingElseIsAnErrorThatNamesTheLine) {
  const std::string message =
      refusal(header + "1,00:00:00.000001,allocate,0x100,8,0x0\n1,2,3\n1,25:00:00.000001,free\n");
  EXPECT_NE(message.find("2 of 4 lines are not records"), std::string::npos) << message;
  EXPECT_NE(message.find("line 3: the time is not HH:MM:SS.ffffff"), std::string::npos) << message;
  EXPECT_NE(message.find("byte 78"), std::string::npos) << message;
  EXPECT_NE(message.find("Thread,Time,Action"), std::string::npos) << message;
  EXPECT_NE(refusal(header).find("no records"), std::string::npos);
}

TEST(RmmLog, EveryFieldIsChecked) {
  rmm::LogRecord record;
  const auto complaint = [&](const std::string& line) {
    const LineComplaint found = rmm::parse(line, record);
    return std::string(found == nullptr ? "" : found);
  };
  EXPECT_EQ(complaint("1,00:00:00.000001,allocate,0x100,8,0x0"), "");
  EXPECT_NE(complaint(""), "");
  EXPECT_NE(complaint("x,00:00:00.000001,allocate,0x100,8,0x0"), "");
  EXPECT_NE(complaint("99999999999999999999,00:00:00.000001,free,0x100,8,0x0"), "");
  EXPECT_NE(complaint("1,24:00:00.000001,allocate,0x100,8,0x0").find("time"), std::string::npos);
  EXPECT_NE(complaint("1,00:60:00.000001,allocate,0x100,8,0x0").find("time"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.00001,allocate,0x100,8,0x0").find("time"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,reallocate,0x100,8,0x0").find("action"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,freed,0x100,8,0x0").find("action"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,free,0x,8,0x0").find("pointer"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,free,0x10000000000000000,8,0x0").find("pointer"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,free,0x1,-8,0x0").find("size"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,free,0x1,8,0x0,").find("stream"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,free,0x1,8,").find("stream"), std::string::npos);
  EXPECT_NE(complaint("1,00:00:00.000001,free,0x1,8").find("size"), std::string::npos);
}

TEST(RmmLog, TheDeviceIsThatOfTheFileName) {
  const std::string log = header + "1,00:00:00.000001,allocate,0x100,8,0x0\n";
  const auto device = [&](const std::string& name) {
    const Result<Trace> trace = open_any(TemporaryFile(log, name).path());
    return trace ? trace->tables[trace->tables[trace->events.origin(0)].heap].device : -1;
  };
  EXPECT_EQ(device("log.dev3.csv"), 3);
  EXPECT_EQ(device("log.dev12.csv"), 12);
  EXPECT_EQ(device("log.csv"), 0);
  EXPECT_EQ(device("log.develop.csv"), 0);
  EXPECT_EQ(device("log.dev"), 0);
}

TEST(RmmLog, LongLogsAreReadPieceByPiece) {
  std::string log = header;
  for (int i = 0; i < 40'000; ++i)
    log += "1,00:00:00.000001,allocate,0x100,8,0x0\n1,00:00:00.000001,free,0x100,8,0x0\n";
  const Trace trace = imported_log(log);
  EXPECT_EQ(trace.events.count(), 80'000U);
  EXPECT_EQ(trace.losses, Losses{});
}

}  // namespace
}  // namespace memreel::test
