// SPDX-License-Identifier: Apache-2.0
// The contract between launcher and agent: what one writes, the other reads.
#include "collector/options/options.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "collector/options/journal.h"

namespace memreel::agent {
namespace {

using Environment = std::map<std::string, std::string>;

Result<Options> read(const Environment& environment) {
  return read_options([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Options, AnEmptyEnvironmentGivesTheDefaults) { EXPECT_EQ(*read({}), Options{}); }

TEST(Options, WhatIsWrittenIsRead) {
  const Options options{.output = "a b/%p.reel",
                        .journal = "/j",
                        .ring_events = 1024,
                        .when_full = WhenFull::block,
                        .depth = 0,
                        .sample_period = std::chrono::milliseconds(0),
                        .flush_period = std::chrono::milliseconds(7),
                        .backend = BackendChoice::interpose,
                        .dormant = true,
                        .torch = false,
                        .python = false,
                        .mode = 0640,
                        .mask = false,
                        .flight = {.size = 256_MiB, .span = std::chrono::minutes(10)},
                        .dumps = {.used_percent = 95,
                                  .growth = DumpOptions::Growth{.bytes = 2_GiB, .time = std::chrono::minutes(1)},
                                  .signal = SIGUSR1,
                                  .kept = 3},
                        .libcupti = "/x/libcupti.so.13"};
  Environment environment;
  for (const auto& [name, value] : to_environment(options)) environment[name] = value;
  EXPECT_EQ(*read(environment), options);
}

TEST(Options, RingsAreRoundedUpToAPowerOfTwo) {
  EXPECT_EQ(read({{"MEMREEL_RING_EVENTS", "1000"}})->ring_events, 1024U);
}

TEST(Options, AWrongValueIsRefusedWithItsNameAndWhatMayStandThere) {
  for (const auto& [name, value] : Environment{{"MEMREEL_OUTPUT", ""},
                                               {"MEMREEL_RING_EVENTS", "0"},
                                               {"MEMREEL_RING_EVENTS", "99999999"},
                                               {"MEMREEL_WHEN_FULL", "wait"},
                                               {"MEMREEL_DEPTH", "-1"},
                                               {"MEMREEL_DEPTH", "12x"},
                                               {"MEMREEL_SAMPLE_MS", "99999999999999999999"},
                                               {"MEMREEL_FLUSH_MS", "0"},
                                               {"MEMREEL_BACKEND", "CUPTI"},
                                               {"MEMREEL_DORMANT", "yes"},
                                               {"MEMREEL_MODE", "0"},
                                               {"MEMREEL_MODE", "440"},
                                               {"MEMREEL_MODE", "689"},
                                               {"MEMREEL_MODE", "1777"},
                                               {"MEMREEL_TORCH", ""},
                                               {"MEMREEL_PYTHON", "2"}}) {
    const auto options = read({{name, value}});
    ASSERT_FALSE(options) << name << "=" << value;
    EXPECT_THAT(options.error().message(),
                ::testing::StartsWith(name + ": invalid value \"" + value + "\" (set it to "));
  }
}

TEST(TraceName, PlaceholdersStandForTheProcess) {
  const ProcessNames names{.process = 42, .host = "node7", .rank = "3"};
  EXPECT_EQ(trace_name("out/%h-r%r.%p.reel", names), "out/node7-r3.42.reel");
  EXPECT_EQ(trace_name("100%%%x%", names), "100%%x%");
  EXPECT_EQ(trace_name("r%r", ProcessNames{}), "rnone");
}

TEST(TraceName, FurtherAttemptsDifferBeforeTheExtension) {
  EXPECT_EQ(trace_name("a.b/run.reel", {}, 2), "a.b/run-2.reel");
  EXPECT_EQ(trace_name("a.b/run", {}, 1), "a.b/run-1");
}

TEST(Journal, WhatIsWrittenIsRead) {
  const JournalEntry entry{.what = JournalEntry::What::ended,
                           .process = 12,
                           .trace = "/a b/c.reel",
                           .events = 1,
                           .lost = 2,
                           .cost_ns = 3,
                           .own_ns = 4,
                           .text = "the disk is full"};
  std::string line = to_line(entry);
  ASSERT_TRUE(line.ends_with('\n'));
  line.pop_back();
  EXPECT_EQ(parse_journal_line(line), entry);
}

TEST(Journal, TextsStayOnOneLineAndNamesAreKept) {
  const std::string name = "/tab\there\nand \\t, \\n and \\";
  const std::string line = to_line({.trace = name, .text = "two\nlines"});
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  EXPECT_EQ(parse_journal_line(line.substr(0, line.size() - 1))->trace, name);
  EXPECT_EQ(parse_journal_line(line.substr(0, line.size() - 1))->text, "two lines");
}

TEST(Journal, DamagedLinesAreNotTakenForOthers) {
  for (const char* const line : {"", "began", "began\t1\t2\t3\t4\t5\t/x", "gone\t1\t2\t3\t4\t5\t/x\t",
                                 "began\tx\t2\t3\t4\t5\t/x\t", "began\t1\t2\t3\t4\t5\t/x\ty\tz"})
    EXPECT_FALSE(parse_journal_line(line)) << line;
}

}  // namespace
}  // namespace memreel::agent
