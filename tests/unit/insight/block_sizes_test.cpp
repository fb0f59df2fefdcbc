// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/heap_map.h"

#include <gtest/gtest.h>

#include "analyzer/replay/memory_summary.h"
#include "formats/import/import.h"
#include "tests/histories.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

using testing::base;

TEST(BlockSizes, RoundSmallRequestsTo512Bytes) {
  History history;
  history.segment_alloc(base, 2_MiB);
  history.alloc(1_B, base);
  history.alloc(513_B, base + 512_B);
  EXPECT_EQ(recorded_blocks(history.trace()).sizes, (std::vector{512_B, 1024_B}));
}

TEST(BlockSizes, ATailOfAMebibyteOrLessGoesWithTheBlock) {
  History history;
  history.segment_alloc(base, 20_MiB);
  history.alloc(19_MiB, base);
  EXPECT_EQ(recorded_blocks(history.trace()).sizes.front(), 20_MiB);
}

TEST(BlockSizes, ALargerTailIsSplitOff) {
  History history;
  history.segment_alloc(base, 20_MiB);
  history.alloc(19_MiB - 512_B, base);
  EXPECT_EQ(recorded_blocks(history.trace()).sizes.front(), 19_MiB - 512_B);
}

TEST(BlockSizes, TheTailEndsAtTheNextBlockThatLivesOrIsPending) {
  History history;
  history.segment_alloc(base, 20_MiB);
  history.alloc(4_MiB, base);
  const AllocationId second = history.alloc(4_MiB, base + 4_MiB);
  history.alloc(4_MiB, base + 8_MiB);
  history.free_requested(second);
  history.free_completed(second);
  history.alloc(3_MiB + 512_KiB, base + 4_MiB);  // leaves half a mebibyte of the gap
  EXPECT_EQ(recorded_blocks(history.trace()).sizes.back(), 4_MiB);
}

TEST(BlockSizes, OversizeRequestsTakeAllOfTheirBlock) {
  History history;
  history.settings({{"max_split_size", std::to_string((20_MiB).count)}});
  history.segment_alloc(base, 44_MiB);
  history.alloc(30_MiB, base);
  EXPECT_EQ(recorded_blocks(history.trace()).sizes.front(), 44_MiB);
}

TEST(BlockSizes, OfOtherAllocatorsAreWhatWasAskedFor) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(builder.heap("rmm", Level::framework, 0));
  builder.alloc(origin, base, 3_B);
  EXPECT_EQ(recorded_blocks(builder.trace()).sizes.front(), 3_B);
}

/// The most that was allocated at any time, tails included.
Bytes peak_allocated(const Trace& trace, HeapId heap) {
  const RecordedBlocks blocks = recorded_blocks(trace);
  Bytes now, peak;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const AllocationId id = trace.events.allocation(i);
    if (id == AllocationId::none || trace.tables[trace.events.origin(i)].heap != heap) continue;
    if (trace.events.kind(i) == EventKind::alloc) now += blocks.sizes[index(id)];
    if (trace.events.kind(i) == EventKind::free_requested) now -= blocks.sizes[index(id)];
    peak = std::max(peak, now);
  }
  return peak;
}

TEST(BlockSizes, AddUpToWhatTheAllocatorItselfCounted) {
  int compared = 0;
  for (const test::History& history : test::histories()) {
    if (history.name.starts_with("leaks/") || history.name.starts_with("random_2m")) continue;
    const Result<Trace> trace = open_any(history.file);
    ASSERT_TRUE(trace) << history.name;
    const auto summaries = memory_summaries(*trace);
    if (!summaries) continue;
    for (const MemorySummary& summary : *summaries) {
      if (!summary.exact) continue;
      EXPECT_EQ(peak_allocated(*trace, summary.heap).count, summary.allocated_bytes.all.peak) << history.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 5);
}

}  // namespace
}  // namespace memreel
