// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/fragmentation.h"

#include <gtest/gtest.h>

#include "formats/import/import.h"
#include "tests/histories.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::base;

std::vector<Fragmentation> fragmentation_of(const Trace& trace) {
  return find_fragmentation(trace, heap_histories(trace), lifetimes(trace), recorded_blocks(trace));
}

/// Three segments: one pinned by a small block of `leak`, one by two sites, one full.
class Pinned : public ::testing::Test {
 protected:
  Pinned() {
    const OriginId origin = builder_.origin(HeapId{1});
    const StackId leak = builder_.stack({"keep@train.py:7"});
    const StackId work = builder_.stack({"work@train.py:9"});
    segment(origin, 0);
    builder_.alloc(origin, base + 10_MiB, 2_MiB, leak);
    segment(origin, 1);
    builder_.alloc(origin, base + 32_MiB, 4_MiB, leak);
    builder_.alloc(origin, base + 40_MiB, 12_MiB, work);
    segment(origin, 2);
    builder_.alloc(origin, base + 64_MiB, 20_MiB, work);
    found_ = fragmentation_of(builder_.trace()).at(0);
  }

  void segment(OriginId origin, std::uint64_t n) {
    builder_.event(EventKind::segment_alloc, origin, base + 32_MiB * n, 20_MiB);
  }

  testing::TraceBuilder builder_;
  Fragmentation found_;
};

TEST_F(Pinned, RanksSegmentsByWhatTheyHoldUnreleasable) {
  ASSERT_EQ(found_.pinned.size(), 2U);
  EXPECT_EQ(found_.pinned[0].segment.address, base);
  EXPECT_EQ(found_.pinned[0].segment.unreleasable, 18_MiB);
  EXPECT_EQ(found_.pinned[0].pins, std::vector{AllocationId{0}});
  EXPECT_EQ(found_.pinned[1].segment.unreleasable, 4_MiB);
  EXPECT_EQ(found_.pinned[1].pin_count, 2U);
}

TEST_F(Pinned, NamesWhoPinsThemAndWhoAlone) {
  ASSERT_EQ(found_.sites.size(), 2U);
  EXPECT_EQ(found_.sites[0].label, "keep (train.py:7)");
  EXPECT_EQ(found_.sites[0].alone, 18_MiB);
  EXPECT_EQ(found_.sites[0].unreleasable, 22_MiB);
  EXPECT_EQ(found_.sites[0].segments, 2U);
  EXPECT_EQ(found_.sites[0].bytes, 6_MiB);
  EXPECT_EQ(found_.sites[1].label, "work (train.py:9)");
  EXPECT_EQ(found_.sites[1].alone, 0_B);
}

TEST_F(Pinned, IsJudgedOnceTheRequestThatGrewThePeakIsServed) {
  EXPECT_EQ(found_.at_peak.reserved, 60_MiB);
  EXPECT_EQ(found_.at_peak.allocated, 38_MiB);
  EXPECT_EQ(found_.growth->requested, 20_MiB);
  EXPECT_EQ(found_.at_peak.unreleasable, 22_MiB);
  EXPECT_EQ(found_.worst.unreleasable, 34_MiB);  // when only the first block of the second segment existed
  EXPECT_EQ(found_.over_time.back().events, builder_.trace().events.count());
}

TEST_F(Pinned, PartsAreWhatIsReserved) {
  const std::vector<ReservedPart> parts = parts_of(found_.at_peak);
  ASSERT_EQ(parts.size(), 2U);  // no rounding, nothing awaiting free, no segment without active blocks
  EXPECT_EQ(parts[0].bytes, 38_MiB);
  EXPECT_STREQ(parts[0].what, "live, as requested");
  EXPECT_EQ(parts[1].bytes, 22_MiB);
  EXPECT_EQ(std::string(parts[1].what).substr(0, 12), "unreleasable");
}

TEST(Fragmentation, FreeMemoryOfAnotherStreamIsStranded) {
  testing::TraceBuilder builder;
  const OriginId first = builder.origin(HeapId{1});
  const OriginId second = builder.origin(HeapId{1}, 0x77);
  builder.event(EventKind::segment_alloc, first, base, 20_MiB);
  builder.free(builder.alloc(first, base, 12_MiB));
  builder.event(EventKind::segment_alloc, second, base + 64_MiB, 12_MiB);
  builder.alloc(second, base + 64_MiB, 12_MiB);
  const Fragmentation found = fragmentation_of(builder.trace()).at(0);
  EXPECT_EQ(found.growth->stranded_stream, 20_MiB);
  EXPECT_EQ(found.growth->stranded_pool, 0_B);
  ASSERT_EQ(found.pool_streams.size(), 2U);
  EXPECT_EQ(found.pool_streams[0].free(), 20_MiB);
  EXPECT_EQ(found.pool_streams[0].unreleasable, 0_B);
}

TEST(Fragmentation, WasteIsCountedBySizeOfTheRequest) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  builder.event(EventKind::segment_alloc, origin, base, 2_MiB);
  builder.alloc(origin, base, 100_B);
  builder.alloc(origin, base + 512_B, 70_B);
  builder.alloc(origin, base + 1024_B, 512_B);
  const Fragmentation found = fragmentation_of(builder.trace()).at(0);
  // Reserved memory is at its peak from the first of them on; most is live after the last.
  ASSERT_EQ(found.size_classes.size(), 2U);
  EXPECT_EQ(found.size_classes[0].least, 64_B);
  EXPECT_EQ(found.size_classes[0].waste(), 412_B + 442_B);
  EXPECT_EQ(found.size_classes[1].waste(), 0_B);
}

TEST(Fragmentation, WhatEndsBeforeAnybodyLooksStillEndsOlderAllocationsAtItsAddress) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  builder.event(EventKind::segment_alloc, origin, base, 4_MiB);
  builder.alloc(origin, base, 1_MiB);  // its free was lost
  builder.alloc(origin, base + 1_MiB, 1_MiB);
  const auto pass = [&](Address address) { builder.free(builder.alloc(origin, address, 512_B)); };
  for (int i = 0; i < 200; ++i) pass(base + 2_MiB);
  pass(base);
  for (int i = 0; i < 200; ++i) pass(base + 2_MiB);
  const std::vector<FragmentationPoint> points = fragmentation_of(builder.trace()).at(0).over_time;
  EXPECT_EQ(points[16].requested, 2_MiB);
  EXPECT_EQ(points.back().requested, 1_MiB);
}

/// A heap that reserved 40 MiB once and needs 12 MiB later: of the instants at the peak, the tightest counts.
class Plateau : public ::testing::Test {
 protected:
  explicit Plateau(std::string_view acquired_at = "grow@train.py:3") {
    origin_ = builder_.origin(HeapId{1});
    const StackId before = builder_.stack({acquired_at});
    builder_.event(EventKind::segment_alloc, origin_, base, 40_MiB, before);
    builder_.alloc(origin_, base, 2_MiB, before);
    builder_.alloc(origin_, base + 2_MiB, 10_MiB, builder_.stack({"work@train.py:9"}));
  }

  Fragmentation found() { return fragmentation_of(builder_.trace()).at(0); }

  testing::TraceBuilder builder_;
  OriginId origin_ = OriginId::none;
};

TEST_F(Plateau, IsJudgedWhenMostIsLive) {
  builder_.free(AllocationId{1});
  builder_.alloc(origin_, base + 2_MiB, 1_MiB);
  EXPECT_EQ(found().at_peak.allocated, 12_MiB);
  EXPECT_EQ(found().at_peak.events, 3U);
  EXPECT_EQ(found().growth->requested, 2_MiB);
}

TEST_F(Plateau, EndsWithTheFirstRelease) {
  builder_.event(EventKind::segment_unmap, origin_, base + 20_MiB, 20_MiB);
  builder_.alloc(origin_, base + 12_MiB, 8_MiB);
  EXPECT_EQ(found().at_peak.allocated, 12_MiB);
}

class InheritedPlateau : public Plateau {
 protected:
  InheritedPlateau() : Plateau("<allocated before recording began>@:0") {}
};

TEST_F(InheritedPlateau, WasReservedForNoRecordedRequest) {
  EXPECT_EQ(found().at_peak.reserved, 40_MiB);
  EXPECT_EQ(found().at_peak.allocated, 12_MiB);
  EXPECT_FALSE(found().growth);
}

TEST_F(InheritedPlateau, IsTheProgramsOwnOnceItGrows) {
  builder_.event(EventKind::segment_alloc, origin_, base + 64_MiB, 2_MiB);
  builder_.alloc(origin_, base + 64_MiB, 1_MiB);
  EXPECT_EQ(found().growth->requested, 1_MiB);
}

TEST(Fragmentation, IsNotJudgedWithoutSegments) {
  testing::TraceBuilder builder;
  builder.alloc(builder.origin(HeapId{1}), base, 1_MiB);
  EXPECT_TRUE(fragmentation_of(builder.trace()).empty());
}

TEST(Fragmentation, OfAnotherMomentIsWhatItWouldBeOfATraceThatEndsThere) {
  const auto file = test::history("oom_default");
  ASSERT_TRUE(file);
  const auto trace = open_any(*file);
  ASSERT_TRUE(trace);
  const RecordedBlocks blocks = recorded_blocks(*trace);
  const Fragmentation whole = fragmentation_of(*trace).at(0);
  const auto at_peak = fragmentation_at(*trace, blocks, whole.heap, whole.at_peak.events - 1);
  ASSERT_TRUE(at_peak);
  EXPECT_EQ(at_peak->at_peak.unreleasable, whole.at_peak.unreleasable);
  EXPECT_EQ(at_peak->sites.size(), whole.sites.size());
  const auto at_growth = fragmentation_at(*trace, blocks, whole.heap, whole.growth->event);
  ASSERT_TRUE(at_growth);
  EXPECT_EQ(at_growth->growth->requested, whole.growth->requested);
  EXPECT_EQ(at_growth->growth->stranded_stream, whole.growth->stranded_stream);

  // Any of those over time that falls on a request.
  int compared = 0;
  for (const FragmentationPoint& point : whole.over_time) {
    if (trace->events.kind(point.events - 1) != EventKind::alloc) continue;
    const auto then = fragmentation_at(*trace, blocks, whole.heap, point.events - 1);
    ASSERT_TRUE(then);
    EXPECT_EQ(then->at_peak.events, point.events);
    EXPECT_EQ(then->at_peak.reserved, point.reserved);
    EXPECT_EQ(then->at_peak.unreleasable, point.unreleasable);
    ++compared;
  }
  EXPECT_GT(compared, 3);
  EXPECT_FALSE(fragmentation_at(*trace, blocks, whole.heap, trace->events.count()));
}

TEST(Fragmentation, AnEmptyTraceHasNone) { EXPECT_TRUE(fragmentation_of({}).empty()); }

}  // namespace
}  // namespace memreel
