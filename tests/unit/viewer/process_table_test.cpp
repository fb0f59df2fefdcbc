// SPDX-License-Identifier: Apache-2.0
// The table of recorded processes, without processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tests/histories.h"
#include "viewer/terminal/process_table.h"

namespace memreel::viewer::terminal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* document = R"json({"schema": "memreel.top/1", "processes": [
  {"process": 4711, "name": "python", "rank": "0", "problem": null, "recording": true, "trace": "/tmp/0.reel",
   "events": 12, "lost_events": 0,
   "heaps": [{"device": 0, "heap": "cuda.driver", "level": "driver", "live_bytes": 62427037696,
              "peak_bytes": 64445820928, "reserved_bytes": 0, "growth_bytes_per_minute": 0},
             {"device": 0, "heap": "torch.cuda", "level": "framework", "live_bytes": 44345417728,
              "peak_bytes": 60032384000, "reserved_bytes": 62427037696, "growth_bytes_per_minute": 20971520.0}],
   "devices": [{"device": 0, "used_bytes": 65712455680, "free_bytes": 19383296000}],
   "findings": {"categories": [{"device": 0, "heap": "torch.cuda", "category": "activation", "bytes": 30064771072},
                               {"device": -1, "heap": "host", "category": "input", "bytes": 5}],
                "leaks": [{"verdict": "leak", "bytes": 2147483648, "count": 20, "growth_bytes_per_step": 9,
                           "place": "forward (model.py:42)"}]}},
  {"process": 812, "name": "serve", "rank": null, "problem": null, "recording": true, "trace": null, "events": 3,
   "lost_events": 0,
   "heaps": [{"device": 1, "heap": "torch.cuda", "level": "framework", "live_bytes": 48318382080,
              "peak_bytes": 48318382080, "reserved_bytes": 49392123904, "growth_bytes_per_minute": null}],
   "devices": [{"device": 1, "used_bytes": 50000000000, "free_bytes": 35000000000}], "findings": null},
  {"process": 99, "name": "asleep", "rank": null, "problem": null, "recording": false, "trace": null, "events": 0,
   "lost_events": 0, "heaps": [], "devices": [], "findings": null},
  {"process": 100, "name": "stuck", "rank": null, "problem": "does not answer", "recording": false, "trace": null,
   "events": 0, "lost_events": 0, "heaps": [], "devices": [], "findings": null}]})json";

ProcessTable table(const Look& look = {}) {
  const auto recorded = std::make_shared<const Recorded>(parse_recorded(document).value());
  ProcessTable table([recorded] { return recorded; }, RecordedOrder::live, look);
  table.update(Clock::now());
  return table;
}

/// Compares with a file that MEMREEL_WRITE_SCREENS=1 writes.
void expect_screen(const std::string& name, const std::string& shown) {
  const auto path = memreel::test::source_directory() / "tests/data/browse" / (name + ".txt");
  if (std::getenv("MEMREEL_WRITE_SCREENS") != nullptr) std::ofstream(path) << shown;  // NOLINT(concurrency-mt-unsafe)
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(shown, golden.str());
}

TEST(TerminalTop, AtThreeSizes) {
  for (const auto& [width, height] : {std::pair{80, 24}, {120, 40}, {200, 60}})
    expect_screen("top-" + std::to_string(width) + "x" + std::to_string(height),
                  table().draw(width, height).plain_text());
}

TEST(TerminalTop, SaysThatLostEventsMakeFiguresTooHigh) {
  Recorded recorded = parse_recorded(document).value();
  recorded[0].lost = 1234;
  ProcessTable table([&] { return std::make_shared<const Recorded>(recorded); }, RecordedOrder::live, Look());
  table.update(Clock::now());
  EXPECT_THAT(table.draw(120, 20).plain_text(), HasSubstr("1,234 events lost: figures may be too high"));
}

TEST(TerminalTop, EverySizeAndDepthIsDrawn) {
  for (const auto& [width, height] : {std::pair{1, 1}, {39, 12}, {40, 12}, {300, 100}})
    for (const bool unicode : {true, false}) {
      ProcessTable small = table({.unicode = unicode, .depth = Depth::none});
      small.handle(Key{.character = U'?'});
      const Screen screen = small.draw(width, height);
      EXPECT_EQ(screen.width(), width);
      EXPECT_EQ(screen.height(), height);
    }
}

TEST(TerminalTop, TheSelectedHeapStaysSelectedWhenTheOrderChanges) {
  auto recorded = std::make_shared<const Recorded>(parse_recorded(document).value());
  ProcessTable table([&] { return recorded; }, RecordedOrder::live, Look());
  const auto copied = [&] {
    table.update(Clock::now());
    static_cast<void>(table.draw(120, 20));
    table.handle(Key{.character = U'y'});
    return table.take_copied().value();
  };
  EXPECT_THAT(copied(), HasSubstr("serve"));
  table.handle(Key{.special = Special::down});
  EXPECT_THAT(copied(), HasSubstr("rank 0 python"));
  Recorded next = *recorded;
  next[0].heaps[1].live = 1024_GiB;  // now the first
  recorded = std::make_shared<const Recorded>(next);
  EXPECT_THAT(copied(), HasSubstr("rank 0 python"));
}

TEST(TerminalTop, EnterOpensTheTraceOfAnyRowOfAProcess) {
  ProcessTable shown = table();
  static_cast<void>(shown.draw(120, 20));
  shown.handle(Key{.special = Special::enter});
  EXPECT_FALSE(shown.wants_to_quit());
  EXPECT_THAT(shown.draw(120, 20).plain_text(), HasSubstr("process 812 has no trace"));
  for (int i = 0; i < 3; ++i) shown.handle(Key{.special = Special::down});
  shown.handle(Key{.special = Special::enter});
  EXPECT_TRUE(shown.wants_to_quit());
  EXPECT_EQ(shown.take_opened(), "/tmp/0.reel");
  EXPECT_FALSE(shown.wants_to_quit()) << "it goes on behind the trace";
}

TEST(TerminalTop, TheEndOfWhatAsksIsSaid) {
  auto recorded = std::make_shared<const Recorded>(parse_recorded(document).value());
  ProcessTable table([&] { return recorded; }, RecordedOrder::process, Look());
  table.update(Clock::now());
  recorded.reset();
  table.update(Clock::now());
  const std::string shown = table.draw(120, 20).plain_text();
  EXPECT_THAT(shown, HasSubstr("no longer asked"));
  EXPECT_THAT(shown, HasSubstr("rank 0 python"));
}

TEST(TerminalTop, WhatIsNoDocumentIsNone) {
  EXPECT_FALSE(parse_recorded(""));
  EXPECT_FALSE(parse_recorded("[]"));
  EXPECT_FALSE(parse_recorded(R"({"schema": "memreel.top/2", "processes": []})"));
  EXPECT_FALSE(parse_recorded(R"({"schema": "memreel.top/1", "processes": [{"process": "x"}]})"));
  EXPECT_TRUE(parse_recorded(R"({"schema": "memreel.top/1", "processes": []})").value().empty());
}

}  // namespace
}  // namespace memreel::viewer::terminal
