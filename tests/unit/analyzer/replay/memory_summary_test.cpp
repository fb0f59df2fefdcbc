// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/memory_summary.h"

#include <gtest/gtest.h>

#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

constexpr Address large{0x7F00'0000'0000};
constexpr Address small{0x7E00'0000'0000};

MemorySummary summary_of(History& history) {
  const auto summaries = memory_summaries(history.trace());
  EXPECT_TRUE(summaries) << (summaries ? "" : summaries.error().message());
  return summaries->at(0);
}

// The metrics equal torch.cuda.memory_stats() after the same calls.
TEST(MemorySummary, KeepsPyTorchsBooks) {
  History history;
  history.segment_alloc(large, 20_MiB);
  const auto a = history.alloc(5_MiB - 100_B, large);
  const auto b = history.alloc(5_MiB, large + 5_MiB);
  history.segment_alloc(small, 2_MiB);
  history.alloc(100_B, small);
  history.free(a);            // a gap of 5 MiB before b
  history.free_requested(b);  // pending
  const MemorySummary summary = summary_of(history);

  EXPECT_TRUE(summary.exact);
  EXPECT_EQ(summary.allocated_bytes.all, (Statistic{512, (10_MiB).count + 512, (10_MiB).count + 512, (10_MiB).count}));
  EXPECT_EQ(summary.allocated_bytes.large.current, 0U);
  EXPECT_EQ(summary.allocated_bytes.small.current, 512U);
  EXPECT_EQ(summary.active_bytes.all.current, (5_MiB).count + 512);
  EXPECT_EQ(summary.active_bytes.all.freed, (5_MiB).count);
  EXPECT_EQ(summary.requested_bytes.all.current, (5_MiB).count + 100);
  EXPECT_EQ(summary.requested_bytes.all.peak, (10_MiB).count);
  EXPECT_EQ(summary.reserved_bytes.all.current, (22_MiB).count);
  EXPECT_EQ(summary.segments.all.current, 2U);
  EXPECT_EQ(summary.allocations.all, (Statistic{1, 3, 3, 2}));
  EXPECT_EQ(summary.active.all, (Statistic{2, 3, 3, 1}));
  // The gap, the large remainder of 10 MiB and the small remainder.
  EXPECT_EQ(summary.inactive_split.all.current, 3U);
  EXPECT_EQ(summary.inactive_split_bytes.large.current, (15_MiB).count);
  EXPECT_EQ(summary.inactive_split_bytes.small.current, (2_MiB).count - 512);
}

TEST(MemorySummary, AWhollyFreeSegmentIsNotSplit) {
  History history;
  history.segment_alloc(large, 20_MiB);
  history.free(history.alloc(5_MiB, large));
  const MemorySummary summary = summary_of(history);
  EXPECT_EQ(summary.inactive_split.all, (Statistic{0, 1, 1, 1}));
  EXPECT_EQ(summary.inactive_split_bytes.all.current, 0U);
}

TEST(MemorySummary, CountsRetriesFailuresAndOversizeBlocks) {
  History history;
  history.settings({{"max_split_size", "31457280"}});
  history.segment_alloc(large, 80_MiB);
  history.free(history.alloc(80_MiB, large));
  history.segment_free(large, 80_MiB);
  history.segment_alloc(large, 46_MiB);
  history.alloc(46_MiB, large);
  history.failed(70_MiB);
  const MemorySummary summary = summary_of(history);
  EXPECT_TRUE(summary.exact);
  EXPECT_EQ(summary.ooms, 1U);
  EXPECT_EQ(summary.alloc_retries, 1U);  // for the first request, releasing the oversize block sufficed
  EXPECT_EQ(summary.oversize_allocations, (Statistic{1, 1, 2, 1}));
  EXPECT_EQ(summary.oversize_segments, (Statistic{1, 1, 2, 1}));
}

TEST(MemorySummary, OfAHistoryThatTheRulesDoNotRepeatIsAnEstimate) {
  History history;
  history.segment_alloc(large, 20_MiB);
  history.alloc(5_MiB, large + 5_MiB);
  EXPECT_FALSE(summary_of(history).exact);
}

}  // namespace
}  // namespace memreel
