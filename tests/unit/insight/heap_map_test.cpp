// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/heap_map.h"

#include <gtest/gtest.h>

#include "analyzer/analysis/history/lifetimes.h"
#include "formats/import/import.h"
#include "tests/histories.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

using testing::base;
constexpr HeapId heap{1};

HeapMap map_after(const Trace& trace, std::uint64_t events) {
  HeapMap map;
  const RecordedBlocks blocks = recorded_blocks(trace);
  for_each_snapshot(trace, std::vector{events},
                    [&](const HeapSnapshot& snapshot) { map = heap_map(trace.tables, snapshot, heap, blocks); });
  return map;
}

HeapMap map_at_end(const Trace& trace) { return map_after(trace, trace.events.count()); }

TEST(HeapMap, FillsSegmentsWithBlocksAndGaps) {
  History history;
  history.segment_alloc(base, 20_MiB);
  const AllocationId first = history.alloc(4_MiB, base);
  history.alloc(2_MiB, base + 4_MiB);
  const AllocationId pending = history.alloc(6_MiB, base + 6_MiB);
  history.free(first);
  history.free_requested(pending);
  const HeapMap map = map_at_end(history.trace());

  ASSERT_EQ(map.segments.size(), 1U);
  const auto blocks = map.blocks_of(map.segments.front());
  ASSERT_EQ(blocks.size(), 4U);
  EXPECT_EQ(blocks[0].use, BlockUse::free);
  EXPECT_EQ(blocks[0].size, 4_MiB);
  EXPECT_EQ(blocks[1].use, BlockUse::live);
  EXPECT_EQ(blocks[2].use, BlockUse::pending);
  EXPECT_EQ(blocks[2].allocation, pending);
  EXPECT_EQ(blocks[3].size, 8_MiB);
  EXPECT_EQ(map.live, 2_MiB);
  EXPECT_EQ(map.pending, 6_MiB);
  EXPECT_EQ(map.free(), 12_MiB);
  EXPECT_EQ(map.largest_free(), 8_MiB);
  EXPECT_EQ(map.unreleasable, 12_MiB);
  EXPECT_DOUBLE_EQ(map.fragmentation(), 0.9);
}

TEST(HeapMap, NothingIsUnreleasableInASegmentThatIsFree) {
  History history;
  history.segment_alloc(base, 20_MiB);
  history.free(history.alloc(4_MiB, base));
  EXPECT_EQ(map_at_end(history.trace()).unreleasable, 0_B);
}

TEST(HeapMap, ExpandableSegmentsGiveBackWholeRuns) {
  History history;
  history.settings({{"expandable_segments", "True"}});
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(heap);
  builder.event(EventKind::segment_map, origin, base, 60_MiB);
  builder.alloc(origin, base + 25_MiB, 2_MiB);
  const HeapMap map = map_at_end(builder.trace());
  EXPECT_EQ(map.free(), 58_MiB);
  EXPECT_EQ(map.unreleasable, 18_MiB);  // the remainder of the middle run
}

TEST(HeapMap, SmallAndLargeSegmentsAreToldApart) {
  History history;
  history.segment_alloc(base, 2_MiB);
  history.segment_alloc(base + 32_MiB, 20_MiB);
  history.alloc(512_B, base);
  const HeapMap map = map_at_end(history.trace());
  ASSERT_EQ(map.segments.size(), 2U);
  EXPECT_TRUE(map.segments[0].pool_stream.small);
  EXPECT_FALSE(map.segments[1].pool_stream.small);
}

TEST(HeapMap, BlocksWithoutASegmentAreOutside) {
  History history;
  history.alloc(3_MiB, base);
  const HeapMap map = map_at_end(history.trace());
  EXPECT_EQ(map.outside, 3_MiB);
  EXPECT_EQ(map.reserved, 0_B);
}

TEST(HeapMap, OverlappingBlocksOfADamagedTraceFillEachByteOnce) {
  History history;
  history.segment_alloc(base, 20_MiB);
  history.alloc(8_MiB, base);
  history.alloc(8_MiB, base + 4_MiB);
  history.alloc(30_MiB, base + 12_MiB);  // beyond the end
  const HeapMap map = map_at_end(history.trace());
  EXPECT_EQ(map.live, 20_MiB);
  EXPECT_EQ(map.free(), 0_B);
}

// At any instant of every real history: blocks fill their segments, and totals match the events.
TEST(HeapMap, IsCompleteAtInstantsOfRealHistories) {
  for (const char* name : {"gpt_default", "gpt_expandable", "streams_default", "graphs_default", "oom_maxsplit"}) {
    const auto file = test::history(name);
    if (!file) continue;
    const Result<Trace> trace = open_any(*file);
    ASSERT_TRUE(trace);
    const RecordedBlocks blocks = recorded_blocks(*trace);
    const std::vector<Lifetime> lives = lifetimes(*trace);
    const std::uint64_t count = trace->events.count();
    const std::vector<std::uint64_t> instants{0, 1, count / 3, count / 2, count - 1, count, count + 5};
    for_each_snapshot(*trace, instants, [&](const HeapSnapshot& snapshot) {
      const HeapMap map = heap_map(trace->tables, snapshot, heap, blocks);
      Bytes requested;
      for (const Lifetime& life : lives)
        if (life.live_after(snapshot.event)) requested += trace->events.size(life.begin);
      EXPECT_EQ(map.requested, requested) << name << " after " << snapshot.event;
      EXPECT_EQ(map.outside, 0_B);
      for (const HeapSegment& segment : map.segments) {
        Address at = segment.address;
        for (const HeapBlock& block : map.blocks_of(segment)) {
          ASSERT_EQ(block.address, at);
          at = block.end();
        }
        ASSERT_EQ(at, segment.end());
        EXPECT_LE(segment.unreleasable, segment.free());
      }
    });
  }
}

}  // namespace
}  // namespace memreel
