// SPDX-License-Identifier: Apache-2.0
// Real histories, compared with their own records.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/import/import.h"
#include "formats/model/live_set.h"
#include "tests/histories.h"
#include "tests/unit/import/import_support.h"

namespace memreel {
namespace {

struct DeviceTotals {
  std::map<std::string, std::uint64_t> actions;
  std::uint64_t reserved = 0, peak_reserved = 0, live = 0, peak_live = 0, live_allocations = 0;
};

std::map<std::string, DeviceTotals> totals_of(const Trace& trace) {
  std::map<std::string, DeviceTotals> result;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const Event event = trace.events[i];
    if (event.kind == EventKind::settings || event.kind == EventKind::mark || event.kind == EventKind::empty_cache ||
        event.kind == EventKind::pool_end)
      continue;
    const Heap& heap = trace.tables[trace.tables[event.origin].heap];
    DeviceTotals& totals = result[std::to_string(heap.device)];
    ++totals.actions[event.kind == EventKind::alloc_failed ? "oom" : std::string(name_of(event.kind))];
    switch (event.kind) {
      case EventKind::alloc:
        totals.live += event.size.count;
        ++totals.live_allocations;
        break;
      case EventKind::free_requested:
        totals.live -= event.size.count;
        --totals.live_allocations;
        break;
      case EventKind::segment_alloc:
      case EventKind::segment_map:
        totals.reserved += event.size.count;
        break;
      case EventKind::segment_free:
      case EventKind::segment_unmap:
        totals.reserved -= event.size.count;
        break;
      default:
        break;
    }
    totals.peak_reserved = std::max(totals.peak_reserved, totals.reserved);
    totals.peak_live = std::max(totals.peak_live, totals.live);
  }
  return result;
}

TEST(Histories, HaveTheCountsAndPeaksOfTheirRecords) {
  std::cout << "on " << test::histories_source() << '\n';
  const auto directory = test::history_directory();
  if (!directory) GTEST_SKIP() << "no truth.json: " << test::histories_source();
  const auto truth = nlohmann::json::parse(std::ifstream(*directory / "truth.json"));
  for (const auto& [name, expected] : truth.items()) {
    SCOPED_TRACE(name);
    const Result<Trace> trace = open_any(*directory / expected["file"].get<std::string>());
    ASSERT_TRUE(trace) << trace.error().message();
    const auto totals = totals_of(*trace);
    ASSERT_EQ(totals.size(), expected["devices"].size());
    for (const auto& [device, wanted] : expected["devices"].items()) {
      SCOPED_TRACE("device " + device);
      const DeviceTotals& got = totals.at(device);
      EXPECT_EQ(got.actions, (wanted["actions"].get<std::map<std::string, std::uint64_t>>()));
      EXPECT_EQ(got.peak_reserved, wanted["peak_reserved_bytes"]);
      EXPECT_EQ(got.reserved, wanted["end_reserved_bytes"]);
      EXPECT_EQ(got.peak_live, wanted["peak_requested_live_bytes"]);
      EXPECT_EQ(got.live, wanted["end_requested_live_bytes"]);
      EXPECT_EQ(got.live_allocations, wanted["end_live_allocations"]);
    }
    // JAX profiles record only that some requests failed.
    EXPECT_EQ(trace->losses, Losses{.unsized_failures = expected.value("failures", std::uint64_t{0})})
        << "complete histories lack nothing";
  }
}

TEST(Histories, EveryFileCanBeOpened) {
  for (const test::History& history : test::histories()) {
    SCOPED_TRACE(history.name);
    const Result<Trace> trace = test::import_both_ways(history.file);
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_GT(trace->events.allocation_count(), 0U);
    EXPECT_TRUE(trace->read.intact());
    // Recordings order events by sequence number; each thread takes its own timestamps.
    const bool sorted = std::ranges::is_sorted(trace->events.times());
    EXPECT_TRUE(sorted || history.file.extension() == ".reel");
  }
}

TEST(Histories, KeepTheirStacks) {
  const auto file = test::history("leak");
  if (!file) GTEST_SKIP() << "needs the history 'leak': " << test::histories_source();
  const Result<Trace> trace = open_any(*file);
  ASSERT_TRUE(trace) << trace.error().message();
  const Tables& tables = trace->tables;
  std::size_t with_stack = 0;
  for (const StackId stack : trace->events.stacks()) with_stack += stack != StackId::none ? 1 : 0;
  EXPECT_EQ(with_stack, 1822U);
  // The innermost frame comes first; the outermost is the module's own code.
  StackId stack = trace->events.stack(trace->events.begin_of(AllocationId{0}));
  while (tables[stack].caller != StackId::none) stack = tables[stack].caller;
  EXPECT_EQ(tables[tables[tables[stack].frame].function], "<module>");
}

}  // namespace
}  // namespace memreel
