// SPDX-License-Identifier: Apache-2.0
// Files that are truncated, damaged, or still being written.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "formats/reader/trace_index.h"
#include "formats/reader/trace_reader.h"
#include "formats/wire/framing.h"
#include "tests/unit/formats/random_history.h"

namespace memreel {
namespace {

using testing::FileBytes;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The packet offsets of an undamaged file, and its end.
std::vector<std::size_t> packet_borders(const FileBytes& bytes) {
  std::vector<std::size_t> borders{0};
  while (borders.back() < bytes.size())
    borders.push_back(borders.back() + wire::parse_head(text_of(bytes).substr(borders.back()))->packet_size);
  return borders;
}

/// The number of a file's events in packets that end at or before `size`.
std::vector<std::size_t> events_by_packet(const FileBytes& bytes, const std::vector<std::size_t>& borders) {
  std::vector<std::size_t> events;
  for (const std::size_t border : borders) {
    const auto part = border == 0 ? Result<Trace>(Trace{}) : load(memory_file(std::span(bytes).first(border)), "trace");
    events.push_back(part->events.count());
  }
  return events;
}

void expect_prefixes_to_open(const FileBytes& bytes, std::size_t step) {
  const auto whole = load(memory_file(bytes), "trace");
  const auto borders = packet_borders(bytes);
  const auto events = events_by_packet(bytes, borders);
  for (std::size_t size = 1; size < bytes.size(); size += step) {
    const auto part = load(memory_file(std::span(bytes).first(size)), "trace");
    ASSERT_TRUE(part) << size;
    const auto packet = static_cast<std::size_t>(std::ranges::upper_bound(borders, size) - borders.begin()) - 1;
    ASSERT_EQ(part->events.count(), events[packet]) << size;
    ASSERT_EQ(part->read.truncated_bytes, size - borders[packet]) << size;
    ASSERT_EQ(part->read.damaged_packets, 0U) << size;
    ASSERT_FALSE(part->read.has_footer);
    ASSERT_EQ(part->read.intact(), size == borders[packet]);
    for (std::size_t i = 0; i < part->events.count(); i += 97) ASSERT_EQ(part->events[i], whole->events[i]);
    if (size % 50 == 1) {
      const auto index = TraceIndex::open(memory_file(std::span(bytes).first(size)), "trace");
      ASSERT_TRUE(index);
      ASSERT_EQ(index->event_count(), events[packet]);
    }
  }
}

TEST(Damage, EveryPrefixOfASmallFileOpens) {
  expect_prefixes_to_open(testing::random_trace(1, 400, {.events_per_block = 50, .events_per_keyframe = 100}), 1);
}

TEST(Damage, PrefixesOfALargerFileOpen) {
  expect_prefixes_to_open(testing::random_trace(2, 20'000, {.events_per_block = 3000, .events_per_keyframe = 7000}),
                          509);
}

TEST(Damage, AnEmptyFileSaysSo) {
  const auto trace = load(memory_file({}), "empty.reel");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().message(), "empty.reel: the file is empty (nothing was recorded in it)");
}

TEST(Damage, SomethingElseIsNotATrace) {
  const std::string text(5000, 'x');
  EXPECT_FALSE(looks_like_trace(std::as_bytes(std::span(text))));
  const auto trace = load(memory_file(std::as_bytes(std::span(text))), "x");
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().message().find("not a memreel trace"), std::string::npos);
  EXPECT_NE(trace.error().message().find("memreel import"), std::string::npos);
}

/// What a reader finds must be consistent, whatever it reads.
void expect_consistent(const Trace& trace) {
  const Events& e = trace.events;
  std::size_t allocations = 0;
  for (std::size_t i = 0; i < e.count(); ++i) {
    ASSERT_NE(e.kind(i), EventKind::unknown);
    ASSERT_LT(index(e.origin(i)), trace.tables.origins.size());
    ASSERT_LT(index(e.stack(i)), trace.tables.stacks.size());
    if (e.kind(i) == EventKind::alloc) {
      ASSERT_EQ(index(e.allocation(i)), allocations);
      ASSERT_EQ(trace.events.begin_of(AllocationId(allocations)), i);
      ++allocations;
    } else if (is_free(e.kind(i)) && e.allocation(i) != AllocationId::none) {
      ASSERT_LT(index(e.allocation(i)), allocations);
    } else {
      ASSERT_EQ(e.allocation(i), AllocationId::none);
    }
  }
  ASSERT_EQ(trace.events.allocation_count(), allocations);
  for (std::size_t i = 1; i < trace.tables.stacks.size(); ++i) ASSERT_LT(index(trace.tables.stacks[i].caller), i);
  for (const Frame& frame : trace.tables.frames) ASSERT_LT(index(frame.function), trace.tables.strings.size());
  for (const Origin& origin : trace.tables.origins) ASSERT_LT(index(origin.heap), trace.tables.heaps.size());
}

TEST(Damage, AFlippedBitAnywhereIsFoundAndCounted) {
  const FileBytes intact = testing::random_trace(3, 240, {.events_per_block = 60, .events_per_keyframe = 100});
  const auto whole = load(memory_file(intact), "trace");
  const auto borders = packet_borders(intact);
  for (std::size_t at = 0; at < intact.size(); ++at) {
    FileBytes bytes = intact;
    bytes[at] ^= std::byte{static_cast<unsigned char>(1U << (at % 8))};
    const auto trace = load(memory_file(bytes), "trace");
    ASSERT_TRUE(trace) << at;
    ASSERT_NO_FATAL_FAILURE(expect_consistent(*trace)) << at;
    ASSERT_FALSE(trace->read.intact()) << at;
    ASSERT_EQ(trace->read.damaged_packets + (trace->read.truncated_bytes != 0 ? 1U : 0U), 1U) << at;
    const auto packet = static_cast<std::size_t>(std::ranges::upper_bound(borders, at) - borders.begin()) - 1;
    ASSERT_EQ(trace->read.damaged_bytes + trace->read.truncated_bytes, borders[packet + 1] - borders[packet]) << at;
    // All other blocks are still there.
    ASSERT_GE(trace->events.count() + 60, whole->events.count()) << at;
    ASSERT_EQ(trace->events.count() + trace->read.missing_events, whole->events.count()) << at;

    const auto index = TraceIndex::open(memory_file(bytes), "trace");
    ASSERT_TRUE(index) << at;
    ASSERT_TRUE(index->state_after(index->event_count())) << at;
  }
}

TEST(Damage, ALostBlockLeavesTheOthersConsistent) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {}, {.events_per_block = 10, .events_per_keyframe = 0});
  for (std::uint64_t i = 0; i < 30; ++i)
    writer.append({.kind = EventKind::alloc, .address = {100 + i}, .size = {1 + i}});
  for (std::uint64_t i = 0; i < 30; ++i) writer.append({.kind = EventKind::free_completed, .address = {100 + i}});
  ASSERT_TRUE(writer.finish());
  const auto borders = packet_borders(bytes);  // header, six blocks, footer
  ASSERT_EQ(borders.size(), 9U);
  bytes[borders[3] - 20] ^= std::byte{0x10};  // in the second block

  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  ASSERT_NO_FATAL_FAILURE(expect_consistent(*trace));
  EXPECT_EQ(trace->events.count(), 50U);
  EXPECT_EQ(trace->read.missing_events, 10U);
  EXPECT_EQ(trace->read.orphaned_frees, 10U);
  EXPECT_TRUE(trace->read.has_footer);
  for (std::size_t i = 20; i < 50; ++i) {
    const Event event = trace->events[i];
    const std::size_t freed = i - 20;
    if (freed >= 10 && freed < 20) {
      EXPECT_EQ(event.allocation, AllocationId::none);
      EXPECT_EQ(event.address.value, 0U);
    } else {
      EXPECT_EQ(event.address.value, 100 + freed);  // its own, although a block of allocations is missing before it
      EXPECT_EQ(event.size.count, 1 + freed);
    }
  }
}

TEST(Damage, LostNamesAreSaidToBeAndLaterRowsKeepTheirNumbers) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  std::vector<StackId> stacks;
  for (const char* name : {"first", "second", "third"}) {
    const FrameId frame = writer.intern(Frame{.function = writer.intern(name)});
    stacks.push_back(writer.intern(Stack{.frame = frame}));
    writer.append({.kind = EventKind::alloc, .stack = stacks.back()});
    ASSERT_TRUE(writer.flush());
  }
  ASSERT_TRUE(writer.finish());
  const auto borders = packet_borders(bytes);  // header, (tables, block) three times, footer
  bytes[borders[3] + 30] ^= std::byte{1};      // the rows of the second block

  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->read.damaged_packets, 1U);
  EXPECT_EQ(trace->read.missing_rows, 3U);  // a string, a frame, a stack
  ASSERT_EQ(trace->events.count(), 3U);
  const auto function = [&](std::size_t event) {
    const Tables& t = trace->tables;
    return t[t[t[trace->events.stack(event)].frame].function];
  };
  EXPECT_EQ(function(0), "first");
  EXPECT_EQ(function(1), "(lost)");
  EXPECT_EQ(function(2), "third");
  EXPECT_EQ(trace->events.stack(2), stacks[2]);
  const auto index = TraceIndex::open(memory_file(bytes), "trace");
  ASSERT_TRUE(index);
  EXPECT_EQ(index->tables(), trace->tables);
}

TEST(Damage, GarbageBetweenPacketsIsSkipped) {
  const FileBytes intact = testing::random_trace(4, 500, {.events_per_block = 100});
  const auto whole = load(memory_file(intact), "trace");
  for (const std::size_t border : packet_borders(intact)) {
    FileBytes bytes = intact;
    // Looks like the start of a packet, twice.
    const std::string garbage = "garbage \x0A\x91\x80\x80\x01\x09MEMREEL\n\x15 \x0A\x91";
    const auto* from = reinterpret_cast<const std::byte*>(garbage.data());
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(border), from, from + garbage.size());
    const auto trace = load(memory_file(bytes), "trace");
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace->read.damaged_bytes + trace->read.truncated_bytes, garbage.size());
    EXPECT_TRUE(trace->events == whole->events);
  }
}

TEST(Damage, APacketWrittenTwiceCountsOnce) {
  const FileBytes intact = testing::random_trace(4, 500, {.events_per_block = 100, .events_per_keyframe = 0});
  const auto borders = packet_borders(intact);
  FileBytes bytes(intact.begin(), intact.begin() + static_cast<std::ptrdiff_t>(borders[4]));
  const FileBytes again(bytes.begin() + static_cast<std::ptrdiff_t>(borders[1]), bytes.end());  // rows, losses, block
  bytes.insert(bytes.end(), again.begin(), again.end());
  bytes.insert(bytes.end(), intact.begin() + static_cast<std::ptrdiff_t>(borders[4]), intact.end());
  const auto trace = load(memory_file(bytes), "trace");
  const auto whole = load(memory_file(intact), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->read.damaged_packets, 2U);
  EXPECT_TRUE(trace->events == whole->events);
  EXPECT_EQ(trace->tables, whole->tables);
}

/// Shows the first `visible` bytes, and `step` more each time that it is asked how many there are.
class Growing final : public ByteFile {
 public:
  explicit Growing(const FileBytes& all) : all_(all) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    return memory_file(std::span(all_).first(visible))->read(offset, into);
  }
  std::uint64_t size() override { return std::exchange(visible, std::min(visible + step, all_.size())); }
  std::size_t visible = 0, step = 0;

 private:
  const FileBytes& all_;
};

TEST(GrowingFile, WhatComesWhileAReaderLooksIsNoDamage) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const OriginId origin = writer.intern(Origin{});
  for (std::uint64_t block = 0; block < 20; ++block) {
    for (std::uint64_t i = 0; i < 50; ++i)
      writer.append({.kind = EventKind::alloc, .origin = origin, .address = {block * i}});
    ASSERT_TRUE(writer.flush());
  }
  ASSERT_TRUE(writer.finish());
  for (const std::size_t step : {1U, 3U, 17U, 64U, 300U}) {
    auto file = std::make_shared<Growing>(bytes);
    file->visible = 200;
    file->step = step;
    auto reader = TraceReader::open(file, "live.reel");
    ASSERT_TRUE(reader);
    std::size_t events = 0;
    for (bool is_whole = false; !is_whole;) {
      is_whole = file->visible == bytes.size();
      for (EventBatch batch; *reader->next(batch);) events += batch.events.count();
    }
    EXPECT_EQ(reader->report().damaged_packets, 0U) << step;
    EXPECT_TRUE(reader->report().has_footer) << step;
    EXPECT_EQ(events, 1000U) << step;
  }
}

TEST(GrowingFile, AReaderFindsWhatWasAddedSince) {
  FileBytes bytes;
  bytes.reserve(1 << 20);  // so that a reader's view of it stays valid
  TraceWriter writer(memory_sink(bytes), {.producer = "live"});
  auto file = std::make_shared<Growing>(bytes);
  file->visible = bytes.size();
  auto reader = TraceReader::open(file, "live.reel");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->header().producer, "live");
  EventBatch batch;
  EXPECT_FALSE(*reader->next(batch));
  for (std::uint64_t round = 1; round <= 5; ++round) {
    for (std::uint64_t i = 0; i < 100; ++i)
      writer.append({.kind = EventKind::alloc,
                     .origin = writer.intern(Origin{.thread = writer.intern(Thread{.tid = round})}),
                     .address = {round}});
    ASSERT_TRUE(writer.flush());
    // At first only part of it is there, growing byte by byte.
    for (; file->visible + 1 < bytes.size(); ++file->visible) ASSERT_FALSE(*reader->next(batch));
    EXPECT_GT(reader->report().truncated_bytes, 0U);
    file->visible = bytes.size();
    ASSERT_TRUE(*reader->next(batch));
    EXPECT_EQ(batch.events.count(), 100U);
    EXPECT_EQ(batch.first_event, 100 * (round - 1));
    EXPECT_FALSE(*reader->next(batch));
    EXPECT_TRUE(reader->report().intact());
  }
  EXPECT_FALSE(reader->report().has_footer);
  ASSERT_TRUE(writer.finish());
  file->visible = bytes.size();
  EXPECT_FALSE(*reader->next(batch));
  EXPECT_TRUE(reader->report().has_footer);
}

}  // namespace
}  // namespace memreel
