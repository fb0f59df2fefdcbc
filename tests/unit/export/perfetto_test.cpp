// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "formats/export/export.h"
#include "perfetto.pb.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using test::perfetto::TrackEvent;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TraceBuilder;

/// What a viewer would show.
struct Shown {
  test::perfetto::Trace trace;
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::int64_t>>> counters;  // time and value, by name
  std::vector<TrackEvent> events;                                                       // except counters
  std::map<std::uint64_t, test::perfetto::TrackDescriptor> tracks;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> totals;  // by GPU and process

  std::vector<std::int64_t> values(const std::string& name) const {
    std::vector<std::int64_t> list;
    const auto found = counters.find(name);
    if (found == counters.end()) return list;
    for (const auto& [time, value] : found->second) list.push_back(value);
    return list;
  }
};

Shown shown(const Trace& trace, const ExportOptions& options = {}) {
  std::ostringstream out;
  EXPECT_TRUE(export_trace(trace, "perfetto", options, out));
  Shown result;
  EXPECT_TRUE(result.trace.ParseFromString(out.str()));
  std::uint64_t last = 0;
  for (const auto& packet : result.trace.packet()) {
    EXPECT_EQ(packet.trusted_packet_sequence_id(), 1U);
    if (packet.has_track_descriptor()) {
      const auto& track = packet.track_descriptor();
      EXPECT_TRUE(result.tracks.emplace(track.uuid(), track).second) << "described twice: " << track.name();
      EXPECT_TRUE(track.has_process() || result.tracks.contains(track.parent_uuid()));
      continue;
    }
    EXPECT_GE(packet.timestamp(), last);
    last = packet.timestamp();
    if (packet.has_gpu_mem_total_event()) {
      const auto& total = packet.gpu_mem_total_event();
      result.totals[{total.gpu_id(), total.pid()}].push_back(total.size());
      continue;
    }
    const TrackEvent& event = packet.track_event();
    if (!result.tracks.contains(event.track_uuid())) {
      ADD_FAILURE() << "an event on a track that was not described before";
      continue;
    }
    const auto& track = result.tracks.at(event.track_uuid());
    EXPECT_EQ(event.type() == TrackEvent::TYPE_COUNTER, track.has_counter());
    if (track.has_counter())
      result.counters[track.name()].emplace_back(last, event.counter_value());
    else
      result.events.push_back(event);
  }
  return result;
}

MarkId mark(TraceBuilder& build, std::string_view name, MarkPhase phase) {
  build.trace().tables.marks.push_back({.name = build.string(name), .phase = phase});
  return MarkId{static_cast<std::uint32_t>(build.trace().tables.marks.size() - 1)};
}

TEST(ExportPerfetto, CountersFollowWhatIsLiveAndReserved) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.event(EventKind::segment_alloc, origin, {0x1000}, 2_MiB);
  const AllocationId first = build.alloc(origin, {0x1000}, 500_B);
  build.alloc(origin, {0x2000}, 100_B);
  build.free(first);
  build.event(EventKind::segment_free, origin, {0x1000}, 2_MiB);
  const Shown result = shown(build.trace());
  EXPECT_THAT(result.counters.at("device 0 torch.cuda: live"),
              ElementsAre(Pair(1000, 500), Pair(2000, 600), Pair(3000, 100)));
  EXPECT_THAT(result.values("device 0 torch.cuda: reserved"), ElementsAre(2 << 20, 0));
  EXPECT_THAT(result.values("device 0 torch.cuda: allocated"), IsEmpty());
  for (const auto& [uuid, track] : result.tracks) {
    if (!track.has_counter()) continue;
    EXPECT_EQ(track.counter().unit(), test::perfetto::CounterDescriptor::UNIT_SIZE_BYTES);
  }
}

TEST(ExportPerfetto, EachCategoryHasACounter) {
  TraceBuilder build;
  const AllocationId weights = build.alloc(build.origin(HeapId{1}), {0x1000}, 500_B);
  build.alloc(build.origin(HeapId{1}), {0x2000}, 100_B);
  build.free(weights);
  const std::vector<std::string_view> categories{"parameter", "activation"};
  const Shown result = shown(
      build.trace(), {.events = {}, .block_sizes = {}, .notes = {.category = categories, .layer = {}, .phase = {}}});
  EXPECT_THAT(result.values("device 0 torch.cuda: live: parameter"), ElementsAre(500, 0));
  EXPECT_THAT(result.values("device 0 torch.cuda: live: activation"), ElementsAre(100));
}

TEST(ExportPerfetto, AllocatedBytesAreShownWhereRoundingIsKnown) {
  TraceBuilder build;
  build.free(build.alloc(build.origin(HeapId{1}), {0x1000}, 500_B));
  const std::vector<Bytes> sizes{512_B};
  EXPECT_THAT(shown(build.trace(), {.events = {}, .block_sizes = sizes}).values("device 0 torch.cuda: allocated"),
              ElementsAre(512, 0));
}

TEST(ExportPerfetto, PoolsAndDevicesHaveCountersOfTheirOwn) {
  TraceBuilder build;
  build.trace().tables.pools.push_back({.key_high = 0, .key_low = 7});
  const OriginId plain = build.origin(HeapId{1}), graph = build.origin(HeapId{1}, 0, PoolId{1});
  const OriginId other = build.origin(build.heap("torch.cuda", Level::framework, 1));
  build.alloc(plain, {0x1000}, 10_B);
  build.alloc(graph, {0x2000}, 20_B);
  build.alloc(other, {0x1000}, 40_B);
  const Shown result = shown(build.trace());
  EXPECT_THAT(result.values("device 0 torch.cuda: live"), ElementsAre(10, 30));
  EXPECT_THAT(result.values("device 0 torch.cuda: live in pool default"), ElementsAre(10));
  EXPECT_THAT(result.values("device 0 torch.cuda: live in pool (0, 7)"), ElementsAre(20));
  EXPECT_THAT(result.values("device 1 torch.cuda: live"), ElementsAre(40));
}

TEST(ExportPerfetto, RangesOpenAndCloseOnTheirThread) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const auto add = [&](MarkId id) { build.push({.kind = EventKind::mark, .origin = origin, .value = index(id)}); };
  add(mark(build, "began before", MarkPhase::end));
  add(mark(build, "forward", MarkPhase::begin));
  add(mark(build, "st\xffp", MarkPhase::instant));
  add(mark(build, "forward", MarkPhase::end));
  const std::vector<TrackEvent> events = shown(build.trace()).events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].type(), TrackEvent::TYPE_SLICE_BEGIN);
  EXPECT_EQ(events[0].name(), "forward");
  EXPECT_EQ(events[1].type(), TrackEvent::TYPE_INSTANT);
  EXPECT_EQ(events[1].name(), "st\xEF\xBF\xBDp");
  EXPECT_EQ(events[2].type(), TrackEvent::TYPE_SLICE_END);
}

TEST(ExportPerfetto, AFailureSaysWhatWasAskedForAndWhere) {
  TraceBuilder build;
  build.event(EventKind::alloc_failed, build.origin(HeapId{1}), {}, 2_GiB, build.stack({"f@a.py:3", "g@b.py:4"}));
  const std::vector<TrackEvent> events = shown(build.trace()).events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].name(), "out of memory");
  std::map<std::string, std::string> said;
  for (const auto& annotation : events[0].debug_annotations())
    said[annotation.name()] =
        annotation.has_uint_value() ? std::to_string(annotation.uint_value()) : annotation.string_value();
  EXPECT_EQ(said["requested bytes"], "2147483648");
  EXPECT_EQ(said["heap"], "torch.cuda, device 0");
  EXPECT_EQ(said["stack"], "f (a.py:3)\ng (b.py:4)");
}

TEST(ExportPerfetto, TimesThatGoBackDoNotTakeCountersBack) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  for (std::uint64_t i = 0; i < 3; ++i) build.alloc(origin, {0x1000 * (i + 1)}, 1_B);
  memreel::testing::set_time(build.trace().events, 1, Nanoseconds{5000});  // shown() checks the order
  EXPECT_THAT(shown(build.trace()).counters.at("device 0 torch.cuda: live"),
              ElementsAre(Pair(0, 1), Pair(5000, 2), Pair(5000, 3)));
}

TEST(ExportPerfetto, WithoutTimesAnEventTakesAMicrosecond) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.alloc(origin, {0x1000}, 1_B);
  build.alloc(origin, {0x2000}, 1_B);
  for (std::size_t i = 0; i < build.trace().events.count(); ++i)
    memreel::testing::set_time(build.trace().events, i, Nanoseconds{7});
  EXPECT_THAT(shown(build.trace()).counters.at("device 0 torch.cuda: live"), ElementsAre(Pair(0, 1), Pair(1000, 2)));
}

TEST(ExportPerfetto, TotalsAreWhatTheProcessHolds) {
  TraceBuilder build;
  build.trace().header.process = 4711;
  const OriginId torch = build.origin(HeapId{1});
  const OriginId driver = build.origin(build.heap("cuda.driver", Level::driver, 0));
  const HeapId inner = build.heap("inner", Level::framework, 0);
  build.trace().tables.heaps[index(inner)].parent = HeapId{1};
  build.event(EventKind::segment_alloc, torch, {0x100000}, 2_MiB);
  build.alloc(torch, {0x100000}, 512_B);
  build.alloc(build.origin(inner), {0x100000}, 64_B);
  const AllocationId own = build.alloc(driver, {0x900000}, 1_MiB);
  build.event(EventKind::memory_info, driver, {}, 5_GiB);
  build.free(own);
  build.event(EventKind::segment_free, torch, {0x100000}, 2_MiB);
  const Shown result = shown(build.trace());
  constexpr std::uint64_t mib = 1U << 20U;
  EXPECT_THAT(result.totals.at({0, 4711}), ElementsAre(2 * mib, 3 * mib, 2 * mib, 0));
  EXPECT_THAT(result.totals.at({0, 0}), ElementsAre(5 * 1024 * mib));
}

}  // namespace
}  // namespace memreel
