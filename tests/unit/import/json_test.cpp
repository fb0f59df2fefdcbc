// SPDX-License-Identifier: Apache-2.0
// Damaged or malicious JSON.
#include <gtest/gtest.h>

#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

TEST(Json, EveryPrefixIsRefusedInOneLine) {
  const std::string whole =
      snapshot({segment(0, 1024, {block(0, 512, 100)})}, {entry("alloc", 512, 100, 1), entry("alloc", 0, 100, 2)})
          .dump();
  ASSERT_EQ(refusal(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message = refusal(whole.substr(0, size));
    ASSERT_NE(message, "") << whole.substr(0, size);
    ASSERT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Json, ErrorsNameTheirPlace) {
  const std::string message = refusal("{\"segments\": [1,\n,]}");
  EXPECT_NE(message.find("JSON: line 2, column 1"), std::string::npos) << message;
}

TEST(Json, DeepNestingCostsNothing) {
  EXPECT_NE(refusal("{\"segments\": " + std::string(1'000'000, '[')), "");
  EXPECT_NE(refusal("{\"segments\": " + std::string(300'000, '[') + std::string(300'000, ']') + "}"), "");
}

TEST(Json, NumbersThatAreNoIntegersAreRefused) {
  Document one = entry("alloc", 1, 1, 1);
  one["addr"] = 1.5e14;
  EXPECT_NE(refusal(snapshot({}, {one}).dump()).find("'addr' is a floating-point number"), std::string::npos);
}

TEST(Json, EntriesAreForgottenOnceTheyAreTaken) {
  // Strings with escapes, and a repeated key: the last one counts, as in JavaScript.
  const Result<Trace> trace = import_bytes(
      R"({"device_traces": [[{"action": "oom", "action": "al\u006coc", "addr": 1, "size": 2, "time_us": 3,
          "frames": [{"name": "\u00e9", "filename": "a", "line": 1}]}, {"action": "snapshot"}]]})");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(kinds(*trace), std::vector{EventKind::alloc});
  EXPECT_EQ(trace->tables[trace->tables[trace->tables[trace->events[0].stack].frame].function], "\u00e9");
}

TEST(Json, KeysMayComeInAnyOrder) {
  // Entries are dropped once taken, so the strings of the second reuse the memory of the first.
  const Result<Trace> trace = import_bytes(
      R"({"device_traces": [[{"addr": 4096, "size": 512, "time_us": 1, "action": "alloc"},
          {"size": 100, "addr": 8192, "action": "alloc", "time_us": 2},
          {"time_us": 3, "action": "alloc", "size": 7, "addr": 12288}]]})");
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->events.count(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(trace->events[i].address, Address{4096 * (i + 1)});
    EXPECT_EQ(trace->events[i].time, std::chrono::microseconds(i + 1));
  }
  EXPECT_TRUE(std::ranges::equal(trace->events.sizes(), std::vector{512_B, 100_B, 7_B}));
}

}  // namespace
}  // namespace memreel::test
