// SPDX-License-Identifier: Apache-2.0
// A flight recorder's trace begins with what was live: how the rest of the memory was divided follows.
#include "analyzer/replay/completed_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/replay/verify.h"
#include "formats/import/import.h"
#include "formats/model/live_set.h"
#include "tests/histories.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::base;
using testing::History;

/// `trace` as a flight recorder leaves it that discarded the first `gone` events.
Trace as_flight(const Trace& trace, std::size_t gone) {
  Trace flight{.header = trace.header, .tables = trace.tables};
  LiveSet live(trace.tables);
  std::map<AllocationId, Event> born, freed;
  std::map<std::pair<OriginId, Address>, Nanoseconds> taken;
  std::vector<Event> restated;
  for (std::size_t i = 0; i < gone; ++i) {
    Event event = trace.events[i];
    live.apply(event);
    if (event.kind == EventKind::alloc) born[event.allocation] = event;
    if (event.kind == EventKind::free_requested) freed[event.allocation] = event;
    if (event.kind == EventKind::settings) restated.push_back(event);
    if (event.kind == EventKind::segment_alloc || event.kind == EventKind::segment_map)
      taken[{event.origin, event.address}] = event.time;
  }
  const HeapSnapshot held = live.snapshot();
  for (const LiveSegment& segment : held.segments)
    restated.push_back({.kind = segment.mapped ? EventKind::segment_map : EventKind::segment_alloc,
                        .origin = segment.origin,
                        .time = taken[{segment.origin, segment.address}],
                        .address = segment.address,
                        .size = segment.size});
  for (const LiveAllocation& allocation : held.allocations) {
    restated.push_back(born.at(allocation.allocation));
    if (allocation.pending) restated.push_back(freed.at(allocation.allocation));
  }
  std::ranges::stable_sort(restated, {}, &Event::time);
  const Nanoseconds until = gone == 0 ? Nanoseconds{} : trace.events.time(gone - 1);
  flight.folded = {.begin = {}, .until = until, .interval = std::chrono::seconds(1), .rows = {{.allocations = 1}}};
  flight.losses.folded_events = gone - restated.size();
  flight.losses.folded_until = until;
  std::map<AllocationId, AllocationId> renamed;
  const auto append = [&](Event event) {
    if (event.kind == EventKind::alloc)
      renamed[event.allocation] = AllocationId{static_cast<std::uint32_t>(flight.events.allocation_count())};
    if (const auto known = renamed.find(event.allocation); known != renamed.end()) event.allocation = known->second;
    flight.events.push_back(event);
  };
  for (const Event& event : restated) append(event);
  for (std::size_t i = gone; i < trace.events.count(); ++i) append(trace.events[i]);
  flight.initial_heaps = restated_heaps(flight);
  return flight;
}

std::vector<std::pair<double, InitialUse>> blocks_in_mib(const InitialSegment& segment) {
  std::vector<std::pair<double, InitialUse>> blocks;
  for (const InitialBlock& block : segment.blocks)
    blocks.emplace_back(static_cast<double>(block.size.count) / (1 << 20), block.use);
  return blocks;
}

TEST(RestatedHeaps, ASmallRestBelongsToTheBlockInFrontOfIt) {
  History history;
  history.segment_alloc(base, 20_MiB);
  history.alloc(3_MiB, base);
  history.alloc(4_MiB, base + 3_MiB + 512_KiB);
  const std::size_t gone = history.trace().events.count();
  using enum InitialUse;
  using Blocks = std::vector<std::pair<double, InitialUse>>;

  std::vector<InitialHeap> heaps = as_flight(history.trace(), gone).initial_heaps;
  ASSERT_EQ(heaps.size(), 1U);
  EXPECT_EQ(blocks_in_mib(heaps[0].segments.at(0)), (Blocks{{3.5, allocated}, {4, allocated}, {12.5, free}}));

  history.alloc(2_MiB, base + 7_MiB + 768_KiB);  // so the free block began there
  heaps = as_flight(history.trace(), gone).initial_heaps;
  EXPECT_EQ(blocks_in_mib(heaps.at(0).segments.at(0)), (Blocks{{3.5, allocated}, {4.25, allocated}, {12.25, free}}));
}

TEST(RestatedHeaps, WhatFollowsAFreeTellsNothing) {
  History history;
  history.segment_alloc(base, 20_MiB);
  const AllocationId first = history.alloc(4_MiB, base);
  const std::size_t gone = history.trace().events.count();
  history.free(first);
  history.alloc(2_MiB, base);
  history.alloc(2_MiB, base + 4_MiB + 256_KiB);
  const std::vector<InitialHeap> heaps = as_flight(history.trace(), gone).initial_heaps;
  EXPECT_EQ(heaps.at(0).segments.at(0).blocks.at(0).size, 4_MiB);
}

TEST(RestatedHeaps, BlocksThatDoNotFitGiveNoState) {
  History history;
  history.segment_alloc(base, 2_MiB);
  history.alloc(1_MiB, base);
  history.alloc(1_MiB, base + 512_KiB);
  EXPECT_TRUE(as_flight(history.trace(), history.trace().events.count()).initial_heaps.empty());
  History outside;
  outside.segment_alloc(base, 2_MiB);
  outside.alloc(1_MiB, base + 4_MiB);
  EXPECT_TRUE(as_flight(outside.trace(), outside.trace().events.count()).initial_heaps.empty());
}

TEST(RestatedHeaps, AllocationsWithoutRoomGiveNoState) {
  History history;
  history.segment_alloc(base, 2_MiB);
  history.alloc(1_MiB, base);
  Trace flight = as_flight(history.trace(), history.trace().events.count());
  ASSERT_EQ(flight.initial_heaps.size(), 1U);
  flight.losses.folded_left_out = 1;
  EXPECT_TRUE(restated_heaps(flight).empty());
}

// Nothing ever begins in the free block behind the first allocation, but two requests passed it over.
TEST(RestatedHeaps, AFreeBlockIsTooSmallForAllThatWasServedElsewhere) {
  History history;
  history.segment_alloc(base, 24_MiB);
  history.alloc(20_MiB, base);  // 4 MiB behind it, or up to 1 MiB less
  history.segment_alloc(base + 1_GiB, 20_MiB);
  history.alloc(16'436_KiB, base + 1_GiB + 4'044_KiB);
  history.segment_alloc(base + 2_GiB, 20_MiB);
  history.alloc(12_MiB, base + 2_GiB + 8_MiB);
  const std::size_t gone = history.trace().events.count();
  history.alloc(3'600_KiB, base + 1_GiB);  // best among 4,044 and 4,096 KiB, but not if that is below 4,044
  history.alloc(4'000_KiB, base + 2_GiB);  // so it is below 4,000
  const auto verified = verify(as_flight(history.trace(), gone));
  ASSERT_TRUE(verified) << verified.error().message();
  EXPECT_TRUE(verified->at(0).exact()) << verified->at(0).note;
}

/// Histories of PyTorch on a GPU.
class FlightOf : public ::testing::TestWithParam<const char*> {};

TEST_P(FlightOf, APyTorchProgramIsReplayedExactlyFromAnyMoment) {
  const auto file = test::history(GetParam());
  if (!file) GTEST_SKIP() << GetParam() << " is not among " << test::histories_source();
  const auto trace = open_any(*file);
  ASSERT_TRUE(trace) << trace.error().message();
  for (const std::size_t percent : {10U, 37U, 50U, 81U}) {
    if (std::string_view(GetParam()) == "resnet_gc" && percent == 50) continue;  // how long blocks were unused decides
    const Trace flight = as_flight(*trace, trace->events.count() * percent / 100);
    for (const InitialHeap& heap : flight.initial_heaps)
      EXPECT_TRUE(std::ranges::is_sorted(heap.segments, {}, &InitialSegment::address)) << "else it can't be written";
    const auto verifications = verify(flight);
    ASSERT_TRUE(verifications) << verifications.error().message();
    for (const Verification& heap : *verifications)
      EXPECT_TRUE(heap.exact()) << percent << " %: " << heap.address_matches << " of " << heap.allocations << ", "
                                << heap.note;
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, FlightOf,
                         ::testing::Values("decode_default", "gpt_default", "streams_default", "oom_default", "threads",
                                           "leak", "two_gpus", "mempool", "gpt_maxsplit", "gpt_pow2", "oom_gc",
                                           "oom_maxsplit", "resnet_gc", "gpt_expandable", "resnet_expandable",
                                           "streams_expandable", "mempool_expandable", "oom_expandable",
                                           "graphs_default", "graphs_expandable"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace memreel
