// SPDX-License-Identifier: Apache-2.0
// What a pool did, one JSON object per line: each kind of line, and whatever else a file may contain.
#include <gtest/gtest.h>

#include <string>

#include "formats/model/value_check.h"
#include "tests/unit/import/import_support.h"

namespace memreel {
namespace {

using test::import_bytes;
using test::kinds;
using test::refusal;
using enum EventKind;

std::string line(const std::string& fields) { return "{\"op\": " + fields + "}\n"; }

Trace trace_of(const std::string& text) {
  Result<Trace> trace = import_bytes(text);
  EXPECT_TRUE(trace) << trace.error().message();
  return trace ? *std::move(trace) : Trace{};
}

const std::string first_alloc = line(R"("alloc", "id": 1, "size": 905, "stream": 7, "ptr": 4096)");

TEST(PoolLog, SaysWhatAPoolDid) {
  const Trace trace =
      trace_of(line(R"("config", "kind": "rmm.pool", "initial": "64KiB", "device": 2, "half": 0.5, "none": null)") +
               line(R"("up", "size": 65536, "ptr": 4096)") + first_alloc +
               line(R"("alloc", "id": 2, "size": 1000000, "stream": 7, "ptr": null)") + line(R"("free", "id": 1)") +
               line(R"("free", "id": 2)") + line(R"("sync")") + line(R"("trim")") +
               line(R"("down", "size": 65536, "ptr": 4096)"));
  EXPECT_EQ(trace.header.source, "pool.jsonl");
  EXPECT_EQ(kinds(trace), (std::vector{settings, segment_alloc, alloc, alloc_failed, free_requested, sync, empty_cache,
                                       segment_free}));
  const Tables& tables = trace.tables;
  ASSERT_EQ(tables.heaps.size(), 2U);
  EXPECT_EQ(tables[tables.heaps[1].name], "rmm.pool");
  EXPECT_EQ(tables.heaps[1].device, 2);
  ASSERT_EQ(tables.settings.size(), 2U);
  ASSERT_EQ(tables.settings[1].entries.size(), 3U);
  EXPECT_EQ(tables[tables.settings[1].entries[1].second], "64KiB");
  EXPECT_EQ(tables[tables.settings[1].entries[2].second], "0.5");
  EXPECT_EQ(trace.events.address(2), Address{4096});
  EXPECT_EQ(trace.events.size(2), 905_B);
  EXPECT_EQ(trace.events.size(3), Bytes{1'000'000});
  EXPECT_EQ(trace.events.allocation(4), trace.events.allocation(2));
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(PoolLog, AFreeIsOnTheStreamOfItsAllocationUnlessItSaysOtherwise) {
  const auto stream_of_free = [](const std::string& free) {
    const Trace trace = trace_of(first_alloc + line(free));
    return trace.tables[trace.tables[trace.events.origin(1)].stream].handle;
  };
  EXPECT_EQ(stream_of_free(R"("free", "id": 1)"), 7U);
  EXPECT_EQ(stream_of_free(R"("free", "id": 1, "stream": 0)"), 0U);
}

TEST(PoolLog, StreamsOneAndTwoAreNotTheDefaultStream) {
  const Trace trace = trace_of(line(R"("alloc", "id": 1, "size": 1, "stream": 1, "ptr": 512)"));
  EXPECT_GT(trace.tables[trace.tables[trace.events.origin(0)].stream].handle, 2U);
}

TEST(PoolLog, SaysWhereAndWhen) {
  const Trace trace = trace_of(
      line(R"("begin", "name": "step", "time": 5)") +
      line(R"("alloc", "id": 1, "size": 1, "ptr": 512, "time": 70, "thread": 3, "stack": [{"function": "inner", )"
           R"("file": "a.py", "line": 3, "more": [{"line": 9}]}, {"function": "outer", "file": "b.py", "line": 4}])") +
      line(R"("end", "name": "step")"));
  EXPECT_EQ(kinds(trace), (std::vector{mark, alloc, mark}));
  EXPECT_EQ(trace.events.time(1), Nanoseconds{70});
  EXPECT_EQ(trace.events.time(2), Nanoseconds{3});  // its line number
  const Tables& tables = trace.tables;
  EXPECT_EQ(tables[tables[trace.events.origin(1)].thread].tid, 3U);
  const Stack& inner = tables[trace.events.stack(1)];
  EXPECT_EQ(tables[tables[inner.frame].function], "inner");
  EXPECT_EQ(tables[tables[inner.frame].file], "a.py");
  EXPECT_EQ(tables[inner.frame].line, 3U);
  EXPECT_EQ(tables[tables[tables[inner.caller].frame].function], "outer");
}

TEST(PoolLog, KeepsWhatTheProgramSaysOfAnAllocation) {
  const Trace trace = trace_of(line(R"("alloc", "id": 8, "size": 1, "ptr": 512, "metadata": "weights")") + first_alloc);
  EXPECT_EQ(trace.tables[trace.tables[trace.events.origin(0)].metadata], "weights");
  EXPECT_EQ(trace.tables[trace.tables[trace.events.origin(1)].metadata], "");
}

TEST(PoolLog, NothingIsGivenToWhoAsksForNothing) {
  const Trace trace = trace_of(line(R"("alloc", "id": 1, "size": 0, "ptr": null)") + line(R"("free", "id": 1)"));
  EXPECT_EQ(trace.events.count(), 0U);
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(PoolLog, CountsWhatIsLost) {
  const Trace trace = trace_of(first_alloc + line(R"("free", "id": 9)") + line(R"("dance")") + "\n" + R"({"op": "all)");
  EXPECT_EQ(kinds(trace), (std::vector{alloc}));
  EXPECT_EQ(trace.losses.unmatched_frees, 1U);
  EXPECT_EQ(trace.losses.unknown_actions, 2U);
}

TEST(PoolLog, AnIdIsOneAllocationAtATime) {
  EXPECT_EQ(trace_of(first_alloc + line(R"("free", "id": 1)") + first_alloc).events.count(), 3U);
  EXPECT_NE(refusal(first_alloc + line(R"("alloc", "id": 1, "size": 1, "ptr": 8192)")).find("line 2 "),
            std::string::npos);
  EXPECT_NE(refusal(first_alloc + line(R"("alloc", "id": 2, "size": 1, "ptr": 4096)")).find("an address that is live"),
            std::string::npos);
}

TEST(PoolLog, NamesTheLineThatIsWrong) {
  const std::string beyond = std::to_string(max_address.value + 1);
  for (const std::string& wrong :
       {std::string("nonsense\n"), std::string("[1, 2]\n"), std::string("{}\n"),
        line(R"("alloc", "size": 1, "ptr": 1)"), line(R"("alloc", "id": 7, "ptr": 1)"),
        line(R"("alloc", "id": -7, "size": 1, "ptr": 1)"), line(R"("alloc", "id": "7", "size": 1, "ptr": 1)"),
        line(R"("alloc", "id": 7, "size": 1.5, "ptr": 1)"),
        line(R"("alloc", "id": 7, "size": 99999999999999, "ptr": 1)"),
        line(R"("alloc", "id": 7, "size": 1, "ptr": )" + beyond), line(R"("free")"), line(R"("up", "ptr": 1)"),
        line(R"("config", "kind": "late")"), line(R"("sync", "time": 18446744073709551615)"),
        std::string(70'000, ' ') + "\n"})
    EXPECT_NE(refusal(first_alloc + wrong).find("line 2 "), std::string::npos) << wrong << refusal(first_alloc + wrong);
  EXPECT_NE(refusal(line(R"("config", "device": 4096)")).find("device"), std::string::npos);
}

TEST(PoolLog, DeepNestingIsPassedOver) {
  const std::string deep(20'000, '[');
  EXPECT_EQ(trace_of(R"({"op": "sync", "deep": )" + deep + std::string(20'000, ']') + "}\n").events.count(), 1U);
}

}  // namespace
}  // namespace memreel
