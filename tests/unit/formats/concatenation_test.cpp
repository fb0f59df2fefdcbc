// SPDX-License-Identifier: Apache-2.0
// `cat a.reel b.reel` is one trace.
#include <gtest/gtest.h>

#include "formats/reader/trace_reader.h"
#include "tests/unit/formats/random_history.h"

namespace memreel {
namespace {

using testing::FileBytes;

FileBytes concatenated(const std::vector<FileBytes>& files) {
  FileBytes all;
  for (const FileBytes& file : files) all.insert(all.end(), file.begin(), file.end());
  return all;
}

/// What an id of the second trace becomes after `rows` rows (row 0 included) of the first.
template <class Id>
Id moved(Id id, std::size_t rows) {
  return index(id) == 0 ? id : Id{static_cast<std::uint32_t>(index(id) + rows - 1)};
}

TEST(Concatenation, AppendsTablesEventsAndAllocations) {
  const FileBytes first = testing::random_trace(1, 3000, {.events_per_block = 700});
  const FileBytes second = testing::random_trace(2, 4000, {.events_per_block = 900});
  const auto a = load(memory_file(first), "a"), b = load(memory_file(second), "b");
  const FileBytes bytes = concatenated({first, second});
  const auto both = load(memory_file(bytes), "both");
  ASSERT_TRUE(both);
  EXPECT_TRUE(both->read.intact());
  EXPECT_EQ(both->header, a->header);
  EXPECT_EQ(both->losses.stack_table_full, 6U);
  ASSERT_EQ(both->events.count(), 7000U);
  const Tables& t = both->tables;
  for (std::size_t i = 0; i < 3000; ++i) ASSERT_EQ(both->events[i], a->events[i]);
  for (std::size_t i = 0; i < 4000; ++i) {
    Event expected = b->events[i];
    expected.origin = moved(expected.origin, a->tables.origins.size());
    expected.stack = moved(expected.stack, a->tables.stacks.size());
    if (expected.allocation != AllocationId::none)
      expected.allocation =
          AllocationId{index(expected.allocation) + static_cast<std::uint32_t>(a->events.allocation_count())};
    if (expected.kind == EventKind::mark) expected.value += expected.value == 0 ? 0 : a->tables.marks.size() - 1;
    if (expected.kind == EventKind::settings) expected.value += expected.value == 0 ? 0 : a->tables.settings.size() - 1;
    if (expected.kind == EventKind::sync && expected.value > sync_edge) expected.value += a->tables.streams.size() - 1;
    ASSERT_EQ(both->events[3000 + i], expected) << i;
    // The rows have the same contents.
    const Origin origin = t[expected.origin], original = b->tables[b->events.origin(i)];
    ASSERT_EQ(t[t[origin.heap].name], b->tables[b->tables[original.heap].name]);
    ASSERT_EQ(t[origin.stream], b->tables[original.stream]);
    ASSERT_EQ(t[t[origin.thread].name], b->tables[b->tables[original.thread].name]);
    const Frame frame = t[t[expected.stack].frame], original_frame = b->tables[b->tables[b->events.stack(i)].frame];
    ASSERT_EQ(t[frame.function], b->tables[original_frame.function]);
  }
  for (std::size_t i = 0; i < both->events.allocation_count(); ++i)
    ASSERT_EQ(index(both->events.allocation(both->events.begin_of(AllocationId(i)))), i);
}

TEST(Concatenation, StateAfterEachBlockNamesHeapsOfTheWhole) {
  const FileBytes bytes = concatenated({testing::random_trace(1, 100), testing::random_trace(2, 100)});
  auto reader = TraceReader::open(memory_file(bytes), "both");
  ASSERT_TRUE(reader);
  EventBatch batch;
  ASSERT_TRUE(*reader->next(batch));
  ASSERT_TRUE(*reader->next(batch));
  EXPECT_EQ(batch.first_event, 100U);
  for (const HeapState& state : batch.state_after) EXPECT_GE(index(state.heap), 4U);
}

TEST(Concatenation, OfACutOffTraceGoesOnWithTheNext) {
  FileBytes first = testing::random_trace(1, 3000, {.events_per_block = 500});
  const auto whole = load(memory_file(first), "a");
  first.resize(first.size() / 2);
  const auto half = load(memory_file(first), "a");
  const FileBytes bytes = concatenated({first, testing::random_trace(2, 1000)});
  const auto both = load(memory_file(bytes), "both");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->events.count(), half->events.count() + 1000);
  EXPECT_EQ(both->read.damaged_bytes, half->read.truncated_bytes);
  EXPECT_EQ(both->read.truncated_bytes, 0U);
}

TEST(Concatenation, CanBeWrittenAsOneTrace) {
  const FileBytes bytes = concatenated({testing::random_trace(1, 3000), testing::random_trace(2, 1000)});
  const auto both = load(memory_file(bytes), "both");
  FileBytes merged;
  TraceWriter writer(memory_sink(merged), both->header);
  writer.extend_tables(both->tables);
  writer.set_losses(both->losses);
  for (std::size_t i = 0; i < both->events.count(); ++i) writer.append(both->events[i]);
  ASSERT_TRUE(writer.finish());
  const auto again = load(memory_file(merged), "merged");
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->events == both->events);
  EXPECT_EQ(again->tables, both->tables);
  EXPECT_EQ(again->losses, both->losses);
}

}  // namespace
}  // namespace memreel
