// SPDX-License-Identifier: Apache-2.0
// Logs of CuPy's hook and of PaddlePaddle's allocator, with unrelated lines in between.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/import/import_support.h"

namespace memreel {
namespace {

using test::import_bytes;
using test::kinds;
using test::refusal;
using enum EventKind;

Trace trace_of_log(const std::string& text) {
  Result<Trace> trace = import_bytes(text);
  EXPECT_TRUE(trace) << trace.error().message();
  return trace ? *std::move(trace) : Trace{};
}

std::string cupy(const std::string& hook, std::uint64_t address, std::uint64_t size, const std::string& more = "") {
  return R"({"hook":")" + hook + R"(","device_id":0,)" + more + R"("mem_size":)" + std::to_string(size) +
         R"(,"mem_ptr":)" + std::to_string(address) + "}\n";
}

TEST(CupyLog, SaysWhatThePoolDid) {
  const Trace trace =
      trace_of_log(cupy("alloc", 4096, 1024) + cupy("malloc", 4096, 512, R"("size":24,)") + cupy("free", 4096, 512));
  EXPECT_EQ(trace.header.source, "cupy.jsonl");
  EXPECT_EQ(kinds(trace), (std::vector{settings, segment_alloc, alloc, free_requested}));
  EXPECT_EQ(trace.events.size(1), 1024_B);
  EXPECT_EQ(trace.events.size(2), 24_B);
  EXPECT_EQ(trace.events.allocation(3), trace.events.allocation(2));
  EXPECT_EQ(trace.tables[trace.tables.heaps[1].name], "cupy");
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(CupyLog, ASegmentThatWasGivenBackUnseenEnds) {
  const Trace trace = trace_of_log(cupy("alloc", 4096, 1024) + cupy("alloc", 4608, 2048));
  EXPECT_EQ(kinds(trace), (std::vector{settings, segment_alloc, segment_free, segment_alloc}));
  EXPECT_EQ(trace.events.size(2), 1024_B);
  EXPECT_EQ(trace.losses.hook_refused, 1U);
}

TEST(CupyLog, OtherOutputIsSkippedAndCounted) {
  const Trace trace =
      trace_of_log("epoch 1\n" + cupy("malloc", 4096, 512, R"("size":24,)") +
                   cupy("malloc", 8192, 512, R"("size":0,)") + cupy("free", 512, 512) + R"({"hook":"mal)");
  EXPECT_EQ(kinds(trace), (std::vector{settings, alloc, alloc, free_requested}));
  EXPECT_EQ(trace.losses.unknown_actions, 2U);
  EXPECT_EQ(trace.losses.unmatched_frees, 1U);
  EXPECT_NE(refusal(cupy("free", 1, 1) + "a\nb\n").find("2 of 3 lines are not records"), std::string::npos);
}

TEST(CupyLog, ImpossibleNumbersAreNoRecords) {
  const std::string good = cupy("malloc", 4096, 512, R"("size":24,)");
  EXPECT_EQ(trace_of_log(good + cupy("malloc", std::uint64_t{1} << 63U, 512, R"("size":24,)")).losses.unknown_actions,
            1U);
}

std::string paddle(const std::string& words, int thread = 7, const std::string& time = "23:45:28.132863") {
  return "I1207 " + time + " " + std::to_string(thread) + " auto_growth_best_fit_allocator.cc:97] " + words + "\n";
}

TEST(PaddleLog, SaysWhatTheAllocatorDid) {
  const Trace trace =
      trace_of_log("I1207 23:45:28.132860 7 api.cc:22899] cast API kernel key: [GPUDNN]\n   ( x , {\n" +
                   paddle("Allocate 100 bytes, aligned to 256, extra size 0") +
                   paddle("Not found and reallocate 1024(0x7f0000001000), and remaining 768") +
                   paddle("Alloc 256 bytes, ptr = 0x7f0000001300") + paddle("Alloc 512 bytes, ptr = 0x7f0000001100") +
                   paddle("Free 256 bytes, ptr = 0x7f0000001300", 7, "23:45:29.132863") +
                   paddle("Free 512 bytes, ptr = 0x7f0000001100") + paddle("Free chunk with size 1024"));
  EXPECT_EQ(trace.header.source, "paddle.log");
  EXPECT_EQ(kinds(trace), (std::vector{segment_alloc, alloc, alloc, free_requested, free_requested, segment_free}));
  EXPECT_EQ(trace.events.size(1), 100_B);  // as requested
  EXPECT_EQ(trace.events.size(2), 512_B);  // rounded: the log does not have it
  EXPECT_EQ(trace.events.time(3) - trace.events.time(1), std::chrono::seconds(1));
  EXPECT_EQ(trace.events.address(5), Address{0x7f0000001000});
  EXPECT_EQ(trace.tables[trace.tables[trace.events.origin(1)].thread].tid, 7U);
  EXPECT_EQ(trace.losses, Losses{});
}

/// The times of events on these dates, from the first, in seconds.
std::vector<long> seconds_of(std::initializer_list<std::string_view> prefixes) {
  std::string log;
  for (const std::string_view prefix : prefixes)
    log += "I" + std::string(prefix) + ".000001 7 a.cc:97] Alloc 256 bytes, ptr = 0x" + std::to_string(log.size() + 1) +
           "000\n";
  const Trace trace = trace_of_log(log);
  std::vector<long> times;
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    times.push_back(
        std::chrono::duration_cast<std::chrono::seconds>(trace.events.time(i) - trace.events.time(0)).count());
  return times;
}

TEST(PaddleLog, TimesGoOnInTheNextMonthAndYear) {
  EXPECT_EQ(seconds_of({"1231 23:59:59", "0101 00:00:01", "1231 23:59:58", "0101 00:00:02"}),
            (std::vector{0L, 2L, -1L, 3L}));
  EXPECT_EQ(seconds_of({"20231231 23:59:59", "20240101 00:00:01"}), (std::vector{0L, 2L}));
  EXPECT_EQ(seconds_of({"0228 23:59:59", "0301 00:00:01"}), (std::vector{0L, 2L}));
  EXPECT_EQ(seconds_of({"20230228 23:59:59", "20230301 00:00:01"}), (std::vector{0L, 2L}));
  EXPECT_EQ(seconds_of({"0228 23:59:59", "0229 00:00:01", "0228 23:59:58", "0301 00:00:01"}),
            (std::vector{0L, 2L, -1L, 86'402L}));
  EXPECT_EQ(seconds_of({"20240228 23:59:59", "20240229 00:00:01", "20240301 00:00:01"}),
            (std::vector{0L, 2L, 86'402L}));
  EXPECT_EQ(seconds_of({"0731 23:59:59", "0801 00:00:01"}), (std::vector{0L, 2L}));
}

TEST(PaddleLog, ALogOfManyYearsIsReadToItsEnd) {
  std::string log;
  for (int year = 0; year < 400; ++year)
    for (const char* const date : {"0101", "0601", "1101"})
      log += "I" + std::string(date) + " 00:00:00.000001 7 a.cc:97] Alloc 256 bytes, ptr = 0x7f0000001000\n";
  EXPECT_EQ(trace_of_log(log).losses.unknown_actions, 0U);
}

TEST(PaddleLog, TheOldestIdleChunkOfItsSizeIsGivenBack) {
  const std::string chunks = paddle("Not found and reallocate 512(0x9000), and remaining 0") +
                             paddle("Not found and reallocate 512(0x1000), and remaining 0") +
                             paddle("Not found and reallocate 512(0x5000), and remaining 0");
  const Trace trace = trace_of_log(chunks + paddle("Alloc 512 bytes, ptr = 0x9000") +
                                   paddle("Free chunk with size 512") + paddle("Free chunk with size 4096"));
  EXPECT_EQ(kinds(trace), (std::vector{segment_alloc, segment_alloc, segment_alloc, alloc, segment_free}));
  EXPECT_EQ(trace.events.address(4), Address{0x1000});
  EXPECT_EQ(trace.losses.unknown_actions, 1U);
}

TEST(PaddleLog, NewerReleasesSayThePlace) {
  const Trace trace =
      trace_of_log(paddle("Allocator instance: 0x55d2 Alloc 256 bytes, ptr = 0x1300, place=Place(gpu:1)") +
                   paddle("Allocator instance: 0x55d2 Alloc 256 bytes, ptr = 0x2300, place=Place(cpu)"));
  EXPECT_EQ(kinds(trace), std::vector{alloc});
  EXPECT_EQ(trace.tables.heaps[1].device, 1);
}

TEST(PaddleLog, LinesThatAreCutOffAreCounted) {
  const Trace trace =
      trace_of_log(paddle("Alloc 256 bytes, ptr = 0x1300") + "I1207 23:45:28.132863 7 a.cc:1] Free 256 by");
  EXPECT_EQ(trace.losses.unknown_actions, 1U);
}

}  // namespace
}  // namespace memreel
