// SPDX-License-Identifier: Apache-2.0
// Timelines of PyTorch's profiler: when it all was, on what, and the profiler's categories.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/import/import_support.h"

namespace memreel {
namespace {

using test::import_bytes;
using test::refusal;

/// A list of rows "[time, action, bytes, category]".
std::string timeline(const std::vector<std::string>& rows) {
  std::string text = "[";
  for (const std::string& row : rows) text += (text.size() == 1 ? "[" : ", [") + row + "]";
  return text + "]";
}

const std::string& heap_name(const Trace& trace) { return trace.tables[trace.tables.heaps[1].name]; }

TEST(Timeline, WhatExistedBeforeIsAsOldAsTheFirstEntryWithATime) {
  const std::vector<std::string> before = {"-1, 1, 1024, 0", "-1, 1, 512, 2", "-1, 1, 100, 7"};
  const std::vector<std::string> after = {"1756681297677352781, 2, 2048, 5", "1756681298289732502, 4, -2048, 5"};
  for (std::size_t count = 0; count <= before.size(); ++count) {
    std::vector<std::string> rows(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(count));
    rows.insert(rows.end(), after.begin(), after.end());
    const auto trace = import_bytes(timeline(rows));
    ASSERT_TRUE(trace);
    const Events& events = trace->events;
    ASSERT_EQ(events.count(), count + 2);
    for (std::size_t i = 0; i <= count; ++i) EXPECT_EQ(events.time(i).count(), 1756681297677352781);
    EXPECT_EQ((events.time(count + 1) - events.time(0)).count(), 612'379'721);
    EXPECT_EQ(trace->losses.preexisting_allocations, count);
    EXPECT_EQ(trace->losses.began_late, count > 0);
  }
}

TEST(Timeline, WithoutTimesThereIsNone) {
  const auto trace = import_bytes(timeline({"-1, 1, 1024, 0", "-1, 1, 512, 2"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.time(0), trace->events.time(1));
  EXPECT_EQ(trace->events.time(0), Nanoseconds{0});
}

TEST(Timeline, SizesOfBlocksAreOfADevice) {
  // Of what existed before, and of versions, there are sizes of tensors.
  for (const char* const size : {"512", "1024", "20971520"}) {
    const auto trace =
        import_bytes(timeline({"-1, 1, 100, 0", std::string("100, 2, ") + size + ", 5", "200, 3, 100, 4"}));
    ASSERT_TRUE(trace);
    EXPECT_EQ(heap_name(*trace), "torch.cuda");
    EXPECT_EQ(trace->tables.heaps[1].device, 0);
  }
}

TEST(Timeline, ASizeThatNoBlockHasIsOfHostMemory) {
  for (const char* const size : {"4", "4000", "20971521"}) {
    const auto trace =
        import_bytes(timeline({"-1, 1, 512, 0", "100, 2, 512, 5", std::string("200, 2, ") + size + ", 5"}));
    ASSERT_TRUE(trace);
    EXPECT_EQ(heap_name(*trace), "torch.cpu");
    EXPECT_EQ(trace->tables.heaps[1].device, -1);
    EXPECT_EQ(trace->tables.heaps.size(), 2U);
  }
}

TEST(Timeline, TheCategoryAtCreationIsMetadata) {
  const auto trace = import_bytes(timeline({"-1, 1, 512, 0", "100, 2, 1024, 1", "200, 3, -1024, 1", "200, 3, 1024, 5",
                                            "300, 4, -1024, 5", "400, 2, 512, 9"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->header.source, profiled_source);
  const auto metadata = [&](std::uint32_t allocation) {
    const std::uint32_t begin = trace->events.begin_of(AllocationId{allocation});
    return trace->tables[trace->tables[trace->events.origin(begin)].metadata];
  };
  ASSERT_EQ(trace->events.allocation_count(), 3U);
  EXPECT_EQ(metadata(0), "parameter");
  EXPECT_EQ(metadata(1), "optimizer_state");
  EXPECT_EQ(metadata(2), "unknown");
  EXPECT_EQ(trace->events.kind(2), EventKind::free_requested);
  EXPECT_EQ(trace->losses.unmatched_frees, 0U);
}

}  // namespace
}  // namespace memreel
