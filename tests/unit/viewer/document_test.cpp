// SPDX-License-Identifier: Apache-2.0
// A Document's answers equal those of a replay of the whole trace, at every instant and for every version.
#include "viewer/model/document.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "analyzer/describe/shortcomings.h"
#include "formats/import/import.h"
#include "formats/model/live_set.h"
#include "formats/reader/trace_reader.h"
#include "tests/histories.h"
#include "tests/unit/formats/random_history.h"
#include "tests/unit/sample_trace.h"
#include "tests/unit/viewer/opened.h"
#include "viewer/model/document_builder.h"
#include "viewer/model/heap_at.h"

namespace memreel::viewer {
namespace {

/// A HeapSnapshot's view of one heap, as a HeapAt.
struct Expected {
  std::vector<HeldBlock> blocks;
  std::vector<std::pair<Address, Bytes>> segments;
};

Expected expected_of(const HeapSnapshot& snapshot, const Tables& tables, HeapId heap) {
  Expected expected;
  for (const LiveAllocation& live : snapshot.allocations)
    if (tables[live.origin].heap == heap)
      expected.blocks.push_back({.allocation = index(live.allocation),
                                 .address = live.address,
                                 .size = live.size,
                                 .taken = live.size,
                                 .pending = live.pending});
  std::ranges::sort(expected.blocks, {}, &HeldBlock::address);
  for (const LiveSegment& segment : snapshot.segments)
    if (tables[segment.origin].heap == heap) expected.segments.emplace_back(segment.address, segment.size);
  return expected;
}

void expect_state(const Document& document, const LiveSet& live, const Tables& tables, std::uint32_t events) {
  const HeapSnapshot snapshot = live.snapshot();
  for (const HeapSeries& series : document.heaps) {
    const HeapAt state = heap_at(document, series.heap, events);
    const Expected expected = expected_of(snapshot, tables, series.heap);
    ASSERT_TRUE(state.blocks == expected.blocks) << "after event " << events;
    std::vector<std::pair<Address, Bytes>> segments;
    for (const HeldSegment& s : state.segments) segments.emplace_back(s.address, s.size);
    ASSERT_EQ(segments, expected.segments) << "after event " << events;

    HeapState sums;
    for (const HeapState& s : live.heaps())
      if (s.heap == series.heap) sums = s;
    const Metrics metrics = document.metrics_after(series, events);
    ASSERT_EQ(value_of(metrics, Metric::live), sums.live.count) << "after event " << events;
    ASSERT_EQ(value_of(metrics, Metric::reserved), sums.reserved.count) << "after event " << events;
    ASSERT_EQ(value_of(metrics, Metric::held), (state.live + state.pending).count) << "after event " << events;
    ASSERT_EQ(state.live, sums.live);
  }
}

/// Compares the state at `count` random instants with a full replay.
void expect_states(const Document& document, const Trace& trace, int count) {
  std::vector<std::uint32_t> at{0, 1, document.event_count()};
  synthetic::Random random(11);
  for (int i = 0; i < count; ++i) at.push_back(static_cast<std::uint32_t>(random.below(document.event_count() + 1)));
  std::ranges::sort(at);
  LiveSet live(trace.tables);
  std::uint32_t next = 0;
  for (const std::uint32_t target : at) {
    for (; next < target; ++next) {
      Event event = trace.events[next];
      live.apply(event);
    }
    expect_state(document, live, trace.tables, target);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Compares minima and maxima of random ranges with those of all their events.
void expect_extents(const Document& document, int ranges) {
  synthetic::Random random(5);
  for (const HeapSeries& series : document.heaps) {
    std::vector<Metrics> all;
    for (std::uint32_t e = 0; e < document.event_count(); ++e) all.push_back(document.metrics_after(series, e + 1));
    for (int i = 0; i < ranges; ++i) {
      const auto begin = static_cast<std::uint32_t>(random.below(all.size()));
      const auto end = static_cast<std::uint32_t>(
          begin + 1 + random.below(std::min<std::uint64_t>(all.size() - begin, 1ULL << random.below(20))));
      Extent expected = Extent::at(all[begin]);
      for (std::uint32_t e = begin + 1; e < end; ++e) expected.add(Extent::at(all[e]));
      ASSERT_EQ(document.extent(series, begin, end), expected) << begin << " .. " << end;
    }
  }
}

void expect_same_allocations(const Document& document, const Trace& trace) {
  ASSERT_EQ(document.event_count(), trace.events.count());
  ASSERT_EQ(document.allocation_count(), trace.events.allocation_count());
  for (std::uint32_t id = 0; id < document.allocation_count(); ++id) {
    const Allocation a = document.allocation(id);
    const Event e = trace.events[trace.events.begin_of(AllocationId(id))];
    ASSERT_EQ(a.begin, trace.events.begin_of(AllocationId(id)));
    ASSERT_EQ(a.address, e.address);
    ASSERT_EQ(a.size, e.size);
    ASSERT_EQ(a.stack, e.stack);
    ASSERT_EQ(a.origin, e.origin);
  }
  for (std::uint32_t i = 0; i < document.event_count(); ++i) {
    ASSERT_EQ(document.time(i), trace.events.time(i));
    ASSERT_EQ(document.kind(i), trace.events.kind(i));
  }
}

TEST(Document, KnowsEveryAllocationAndTheStateAtEveryInstantOfARandomHistory) {
  const auto bytes = memreel::testing::random_trace(1, 15'000, {.events_per_block = 700, .events_per_keyframe = 2000});
  const Opened opened = open(memory_file(bytes), 100);
  EXPECT_GT(opened.last().keyframes.size(), 5U);
  expect_same_allocations(opened.last(), opened.trace);
  expect_states(opened.last(), opened.trace, 300);
  expect_extents(opened.last(), 300);
}

TEST(Document, VersionsDoNotChangeWhileLongerOnesAreMade) {
  const auto bytes = memreel::testing::random_trace(3, 6'000, {.events_per_block = 500});
  const Opened opened = open(memory_file(bytes), 100);
  ASSERT_GT(opened.versions.size(), 8U);
  for (const auto& version : opened.versions) expect_states(*version, opened.trace, 10);
}

TEST(Document, FindsEventsByTimeAndAllocationsByEvent) {
  const auto bytes = memreel::testing::random_trace(4, 5'000, {});
  const Opened opened = open(memory_file(bytes));
  const Document& document = opened.last();
  Nanoseconds latest = document.first_time();
  std::uint32_t allocations = 0;
  for (std::uint32_t e = 0; e < document.event_count(); ++e) {
    ASSERT_EQ(document.allocations_before(e), allocations);
    if (document.kind(e) == EventKind::alloc) ++allocations;
    latest = std::max(latest, document.time(e));
    const std::uint32_t until = document.events_until(latest);
    ASSERT_GT(until, e);
    ASSERT_TRUE(until == document.event_count() || document.time(until) > latest);
  }
  EXPECT_EQ(document.last_time(), latest);
  EXPECT_EQ(document.events_until(document.first_time() - Nanoseconds{1}), 0U);
}

TEST(Document, AFreeEndsAnAllocationOnceByItsNumberOrItsPlace) {
  Trace trace;
  trace.tables.heaps.resize(3);
  trace.tables.origins = {Origin{}, Origin{.heap = HeapId{1}}, Origin{.heap = HeapId{2}}};
  const auto add = [&](EventKind kind, std::uint32_t origin, AllocationId allocation, std::uint64_t address) {
    trace.events.push_back({.kind = kind,
                            .origin = OriginId{origin},
                            .allocation = allocation,
                            .time = Nanoseconds{static_cast<std::int64_t>(trace.events.count())},
                            .address = {address},
                            .size = 512_B});
  };
  constexpr AllocationId none = AllocationId::none;
  add(EventKind::alloc, 1, AllocationId{0}, 4096);
  add(EventKind::alloc, 1, AllocationId{1}, 8192);
  add(EventKind::free_requested, 2, none, 8192);             // 2: in another heap
  add(EventKind::free_completed, 1, none, 8192);             // 3: of 1
  add(EventKind::free_requested, 1, none, 8192);             // 4: there is none any more
  add(EventKind::free_completed, 1, AllocationId{0}, 4096);  // 5
  add(EventKind::free_completed, 1, AllocationId{0}, 4096);  // 6: had ended
  add(EventKind::alloc, 1, AllocationId{2}, 4096);
  add(EventKind::alloc, 1, AllocationId{3}, 4096);           // 8: ends 2, which was there
  add(EventKind::free_requested, 1, AllocationId{2}, 4096);  // 9
  DocumentBuilder builder;
  builder.add(trace, trace.events.count());
  const auto document = builder.publish(std::make_shared<const Trace>(trace), true);
  using Ids = std::vector<std::optional<std::uint32_t>>;
  Ids ids;
  for (std::uint32_t e = 0; e < document->event_count(); ++e) ids.push_back(document->allocation_of(e));
  EXPECT_EQ(ids, (Ids{0, 1, std::nullopt, 1, std::nullopt, 0, std::nullopt, 2, 3, std::nullopt}));
  std::vector<std::uint32_t> at;
  for (std::uint32_t row = 0; row < document->columns.other.size(); ++row) at.push_back(document->other(row).at);
  EXPECT_EQ(at, (std::vector<std::uint32_t>{2, 4, 6, 8, 9}));
  EXPECT_EQ(document->other(0).event.address, Address{8192});
  EXPECT_EQ(document->other(2).event.allocation, AllocationId{0});
  EXPECT_EQ(document->other(2).event.address, Address{}) << "that of its allocation, which may be another's now";
  EXPECT_EQ(document->other(3).event.kind, EventKind::free_completed);
  EXPECT_EQ(document->other(3).event.allocation, AllocationId{2});
  EXPECT_EQ(document->completed(2), 8U);
}

TEST(Document, OfAnEmptyTraceIsEmpty) {
  std::vector<std::byte> bytes;
  ASSERT_TRUE(TraceWriter(memory_sink(bytes), {}).finish());
  const Opened opened = open(memory_file(bytes));
  EXPECT_TRUE(opened.last().empty());
  EXPECT_EQ(opened.last().last_time(), Nanoseconds{});
  EXPECT_EQ(opened.last().events_until(Nanoseconds{5}), 0U);
  EXPECT_TRUE(heap_at(opened.last(), HeapId{1}, 0).blocks.empty());
}

class HistoryDocument : public ::testing::TestWithParam<test::History> {};

TEST_P(HistoryDocument, AgreesWithAReplay) {
  const auto file = open_trace(GetParam().file);
  ASSERT_TRUE(file) << file.error().message();
  const Opened opened = open(*file);
  expect_states(opened.last(), opened.trace, 25);
  if (opened.trace.events.count() < 50'000) {
    expect_same_allocations(opened.last(), opened.trace);
    expect_extents(opened.last(), 50);
  }
}

std::vector<test::History> some_histories() {
  std::vector<test::History> some;
  for (const char* name : {"gpt_expandable", "streams_default", "graphs_default", "mempool", "jax_crowded", "two_gpus",
                           "oom_default", "leak"})
    if (const auto file = test::history(name)) some.push_back({name, *file});
  return some;
}

INSTANTIATE_TEST_SUITE_P(Recorded, HistoryDocument, ::testing::ValuesIn(some_histories()),
                         [](const auto& history) { return history.param.name; });

TEST(Document, StateOfALongHistoryIsThatOfAReplayAtAThousandInstants) {
  const auto path = test::history("random_2m");
  if (!path) GTEST_SKIP() << "no random_2m";
  const auto file = open_trace(*path);
  ASSERT_TRUE(file);
  const Opened opened = open(*file);
  expect_states(opened.last(), opened.trace, 1000);
}

TEST(Document, CountsTheStacksOfOlderAllocationsAsAReportDoes) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const std::string older = std::string(preexisting_frame) + "@:0";
  build.alloc(origin, Address{4096}, 1_KiB, build.stack({older}));
  build.alloc(origin, Address{8192}, 1_KiB, build.stack({"load@train.py:3", older}));
  build.alloc(origin, Address{16384}, 1_KiB, build.stack({"step@train.py:7"}));
  build.trace().losses.preexisting_allocations = 2;
  build.trace().losses.began_late = true;
  const auto trace = std::make_shared<const Trace>(build.trace());
  DocumentBuilder builder;
  builder.add(*trace, trace->events.count());
  const std::vector<std::string> whole = builder.publish(trace, true)->shortcomings();
  EXPECT_EQ(whole, shortcomings(*trace));
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_NE(whole[0].find("2 allocations are older"), std::string::npos) << whole[0];
  EXPECT_NE(whole[0].find("the stacks of 1 are not known"), std::string::npos) << whole[0];
  build.trace().events = Events();
  build.alloc(origin, Address{4096}, 1_KiB, build.stack({older}));
  build.alloc(origin, Address{8192}, 1_KiB, build.stack({older}));
  EXPECT_EQ(shortcomings(build.trace()).at(0).substr(0, 28), "one instant, not a history: ")
      << "if there is nothing else";
  const std::vector<std::string> so_far = builder.publish(trace, false)->shortcomings();
  EXPECT_EQ(so_far.at(0).find("not known"), std::string::npos) << "before all are read: " << so_far[0];
}

}  // namespace
}  // namespace memreel::viewer
