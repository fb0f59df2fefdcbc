// SPDX-License-Identifier: Apache-2.0
// The state at any instant, found through the index, equals that of a replay from the beginning.
#include "formats/reader/trace_index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/formats/random_history.h"

namespace memreel {
namespace {

using testing::FileBytes;

/// The states before each of `at` (ascending), by replaying everything.
std::vector<HeapSnapshot> replayed(const Trace& trace, const std::vector<std::uint64_t>& at) {
  std::vector<HeapSnapshot> states;
  LiveSet live(trace.tables);
  std::uint64_t next = 0;
  for (const std::uint64_t target : at) {
    for (; next < target; ++next) {
      Event event = trace.events[static_cast<std::size_t>(next)];
      live.apply(event);
    }
    states.push_back(live.snapshot());
    states.back().event = target;
  }
  return states;
}

void expect_same_states(const FileBytes& bytes, bool from_footer) {
  const auto trace = load(memory_file(bytes), "trace");
  const auto index = TraceIndex::open(memory_file(bytes), "trace");
  ASSERT_TRUE(trace && index);
  EXPECT_EQ(index->from_footer(), from_footer);
  EXPECT_EQ(index->event_count(), trace->events.count());
  EXPECT_EQ(index->tables(), trace->tables);
  std::vector<std::uint64_t> at{0, 1, trace->events.count() - 1, trace->events.count()};
  synthetic::Random random(7);
  for (int i = 0; i < 60; ++i) at.push_back(random.below(trace->events.count()));
  for (const auto& block : index->blocks()) at.push_back(block.first_event);
  std::ranges::sort(at);
  const auto states = replayed(*trace, at);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto state = index->state_after(at[i]);
    ASSERT_TRUE(state);
    ASSERT_TRUE(*state == states[i]) << "after event " << at[i];
  }
}

const WriterOptions small_blocks{.events_per_block = 300, .events_per_keyframe = 2000};

TEST(TraceIndexOf, ACompleteTrace) { expect_same_states(testing::random_trace(1, 15'000, small_blocks), true); }

TEST(TraceIndexOf, ATraceWithoutKeyframes) {
  expect_same_states(testing::random_trace(2, 5'000, {.events_per_block = 300, .events_per_keyframe = 0}), true);
}

TEST(TraceIndexOf, ATraceWithoutFooter) {
  FileBytes bytes = testing::random_trace(3, 15'000, small_blocks);
  bytes.resize(bytes.size() - 1);
  expect_same_states(bytes, false);
}

TEST(TraceIndexOf, Concatenations) {
  FileBytes bytes = testing::random_trace(4, 5'000, small_blocks);
  const FileBytes second = testing::random_trace(5, 6'000, small_blocks);
  bytes.insert(bytes.end(), second.begin(), second.end());
  expect_same_states(bytes, true);
  const FileBytes third = testing::random_trace(6, 3'000, small_blocks);
  bytes.pop_back();  // the second one is truncated
  bytes.insert(bytes.end(), third.begin(), third.end());
  expect_same_states(bytes, false);
}

TEST(TraceIndexOf, KeyframesAreWhereTheyAreAskedFor) {
  const FileBytes bytes = testing::random_trace(8, 10'000, small_blocks);
  const auto index = TraceIndex::open(memory_file(bytes), "trace");
  ASSERT_TRUE(index);
  std::vector<std::uint64_t> keyframes;
  for (const auto& block : index->blocks())
    if (block.is_keyframe) keyframes.push_back(block.first_event);
  EXPECT_EQ(keyframes, (std::vector<std::uint64_t>{2100, 4200, 6300, 8400}));
}

TEST(TraceIndexOf, AnInstant) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {}, {.events_per_block = 4, .events_per_keyframe = 8});
  for (int i = 0; i < 40; ++i)
    writer.append({.kind = EventKind::alloc,
                   .time = Nanoseconds(100 + 10 * (i / 2)),  // in pairs
                   .address = {static_cast<std::uint64_t>(i)},
                   .size = 1_B});
  ASSERT_TRUE(writer.finish());
  const auto index = TraceIndex::open(memory_file(bytes), "trace");
  ASSERT_TRUE(index);
  const auto live_at = [&](std::int64_t time) { return index->state_at(Nanoseconds(time))->allocations.size(); };
  EXPECT_EQ(live_at(99), 0U);
  EXPECT_EQ(live_at(100), 2U);
  EXPECT_EQ(live_at(109), 2U);
  EXPECT_EQ(live_at(110), 4U);
  EXPECT_EQ(live_at(195), 20U);
  EXPECT_EQ(live_at(290), 40U);
  EXPECT_EQ(live_at(1'000'000), 40U);
  EXPECT_EQ(index->state_after(1'000'000)->event, 40U);
}

/// Flips a bit in the middle of a packet.
void damage(FileBytes& bytes, const TraceIndex::Block& block) {
  bytes[static_cast<std::size_t>(block.offset + block.size / 2)] ^= std::byte{1};
}

TEST(TraceIndexOf, ADamagedKeyframeFallsBackToTheOneBefore) {
  FileBytes bytes = testing::random_trace(9, 10'000, small_blocks);
  const auto whole = TraceIndex::open(memory_file(bytes), "trace");
  const auto before = whole->state_after(5'000);
  for (const auto& block : whole->blocks())
    if (block.is_keyframe) damage(bytes, block);
  const auto index = TraceIndex::open(memory_file(bytes), "trace");
  ASSERT_TRUE(index);
  EXPECT_TRUE(*index->state_after(5'000) == *before);
}

TEST(TraceIndexOf, ADamagedBlockIsMissingUntilTheNextKeyframe) {
  FileBytes bytes = testing::random_trace(10, 10'000, small_blocks);
  const FileBytes intact = bytes;
  const auto whole = TraceIndex::open(memory_file(intact), "trace");
  const auto& blocks = whole->blocks();
  const auto damaged = std::ranges::find(blocks, std::uint64_t{3000}, &TraceIndex::Block::first_event);
  ASSERT_TRUE(damaged != blocks.end() && !damaged->is_keyframe);
  damage(bytes, *damaged);
  // With the footer and without.
  for (const std::size_t cut : {0U, 1U}) {
    bytes.resize(bytes.size() - cut);
    const auto index = TraceIndex::open(memory_file(bytes), "trace");
    ASSERT_TRUE(index);
    EXPECT_EQ(index->state_after(3000)->missing_events, 0U);
    EXPECT_EQ(index->state_after(3100)->missing_events, 100U);
    EXPECT_EQ(index->state_after(4000)->missing_events, 300U);
    EXPECT_NE(index->state_after(4000)->allocations, whole->state_after(4000)->allocations);
    EXPECT_EQ(index->state_after(4200)->missing_events, 0U);
    EXPECT_TRUE(*index->state_after(9000) == *whole->state_after(9000));
  }
}

TEST(TraceIndexOf, SomethingElse) {
  const std::string text = "not a trace";
  const auto index = TraceIndex::open(memory_file(std::as_bytes(std::span(text))), "notes.txt");
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().where, "notes.txt");
}

}  // namespace
}  // namespace memreel
