// SPDX-License-Identifier: Apache-2.0
// What is read equals what was written, and writing it again gives the same bytes.
#include <gtest/gtest.h>

#include "formats/model/value_check.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_in_memory.h"
#include "tests/unit/formats/random_history.h"

namespace memreel {
namespace {

using testing::FileBytes;
using testing::RandomHistory;

/// Reads a trace block by block and writes each block again.
FileBytes rewrite(const FileBytes& bytes, const WriterOptions& options) {
  auto reader = TraceReader::open(memory_file(bytes), "trace");
  EXPECT_TRUE(reader);
  FileBytes again;
  TraceWriter writer(memory_sink(again), reader->header(), options);
  EventBatch batch;
  while (*reader->next(batch)) {
    writer.extend_tables(reader->tables());
    writer.set_losses(reader->losses());
    for (std::size_t i = 0; i < batch.events.count(); ++i) writer.append(batch.events[i]);
    EXPECT_TRUE(writer.flush());
  }
  writer.extend_tables(reader->tables());
  writer.set_losses(reader->losses());
  EXPECT_TRUE(writer.finish());
  return again;
}

class RoundTrip : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RoundTrip, KeepsEveryEventAndEveryRow) {
  const std::uint64_t seed = GetParam();
  FileBytes bytes;
  const WriterOptions options{.events_per_block = seed % 2 == 0 ? 65536U : 777U, .events_per_keyframe = 3000};
  TraceWriter writer(memory_sink(bytes), {.producer = "p", .source = "s", .source_name = "n", .host = "h"}, options);
  RandomHistory history(writer, seed);
  for (int part = 0; part < 8; ++part) {
    history.append(1 + 200 * static_cast<std::uint64_t>(part));
    ASSERT_TRUE(writer.flush());
  }
  ASSERT_TRUE(writer.finish());

  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->header, (Header{.producer = "p", .source = "s", .source_name = "n", .host = "h"}));
  EXPECT_EQ(trace->tables, writer.tables());
  EXPECT_EQ(trace->losses.unmatched_frees, history.unmatched());
  EXPECT_TRUE(trace->read.intact());
  EXPECT_TRUE(trace->read.has_footer);
  ASSERT_EQ(trace->events.count(), history.expected().size());
  for (std::size_t i = 0; i < trace->events.count(); ++i)
    ASSERT_EQ(trace->events[i], history.expected()[i]) << "event " << i;
  for (std::size_t i = 0; i < trace->events.allocation_count(); ++i) {
    const std::uint32_t event = trace->events.begin_of(AllocationId(i));
    ASSERT_EQ(trace->events.kind(event), EventKind::alloc);
    ASSERT_EQ(index(trace->events.allocation(event)), i);
  }
  EXPECT_TRUE(rewrite(bytes, options) == bytes);
}

TEST_P(RoundTrip, ATraceInMemoryIsWhatAReaderFindsInItsFile) {
  const std::uint64_t seed = GetParam();
  const Header header{.producer = "p", .source = "s\x1b", .environment = {{"RANK", "3"}}};
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), header);
  TraceInMemory memory(header, "trace", 1_GiB);
  for (TraceOutput* output : std::initializer_list<TraceOutput*>{&writer, &memory}) {
    RandomHistory(*output, seed).append(5000);
    output->set_losses({.unmatched_frees = 1, .began_late = true});
    for (std::uint32_t heap = 1; heap < 4; ++heap)
      EXPECT_EQ(output->state_of(HeapId{heap}), writer.state_of(HeapId{heap}));
    ASSERT_TRUE(output->finish());
  }
  const auto of_file = load(memory_file(bytes), "trace");
  ASSERT_TRUE(of_file);
  const Trace trace = std::move(memory).take();
  EXPECT_EQ(trace.header, of_file->header);
  EXPECT_EQ(trace.tables, of_file->tables);
  for (std::size_t i = 0; i < std::min(trace.events.count(), of_file->events.count()); ++i)
    ASSERT_EQ(trace.events[i], of_file->events[i]) << "event " << i;
  EXPECT_EQ(trace.events.count(), of_file->events.count());
  EXPECT_EQ(trace.losses, of_file->losses);
  EXPECT_EQ(trace.read, of_file->read);
}

TEST(TraceInMemory, TakesNoMoreThanItMay) {
  TraceInMemory memory({}, "a.log", 1_MiB);
  const HeapId heap = memory.intern(Heap{.name = memory.intern("heap")});
  const OriginId origin = memory.intern(Origin{.heap = heap});
  for (int i = 0; i < 200'000; ++i) memory.append({.kind = EventKind::alloc, .origin = origin, .size = 1_KiB});
  const Result<void> done = memory.finish();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("a.log: holds events and tables that need more than 1.00 MiB"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RoundTrip, ::testing::Range<std::uint64_t>(1, 33));

TEST(RoundTripOfHeader, KeepsTheJobAndTheMachine) {
  FileBytes bytes;
  const Header header{.host = "node7",
                      .process = 42,
                      .start = Nanoseconds{1'763'901'562'000'000'001},
                      .machine = "aarch64",
                      .byte_order = ByteOrder::little,
                      .page_size = 65536_B,
                      .environment = {{"RANK", "3"}, {"SLURM_JOB_NAME", ""}, {"WORLD_SIZE", "16"}},
                      .versions = {{"torch", "2.8.0"}}};
  TraceWriter writer(memory_sink(bytes), header);
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->header, header);
}

TEST(RoundTripOfHeader, AByteOrderOfALaterVersionIsUnknown) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), Header{.machine = "pdp11", .byte_order = static_cast<ByteOrder>(3)});
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->read.intact());
  EXPECT_EQ(trace->header, (Header{.machine = "pdp11"}));
}

TEST(RoundTripOfHeader, KeepsAsManyVariablesAsAReaderBears) {
  FileBytes bytes;
  Header header;
  for (int i = 0; i < 1000; ++i) header.environment.emplace("SLURM_" + std::to_string(1000 + i), "\x1b");
  TraceWriter writer(memory_sink(bytes), header);
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->header.environment.size(), max_variables);
  EXPECT_EQ(trace->header.environment.at("SLURM_1000"), "\\x1b");
}

TEST(RoundTripOf, SyntheticHistories) {
  for (const std::uint32_t steps : {0U, 20U}) {
    const Trace made = synthetic_trace({.events = 200'000, .live = 3000, .streams = 3, .steps = steps});
    FileBytes bytes;
    TraceWriter writer(memory_sink(bytes), made.header);
    writer.extend_tables(made.tables);
    for (std::size_t i = 0; i < made.events.count(); ++i) writer.append(made.events[i]);
    ASSERT_TRUE(writer.finish());

    const auto trace = load(memory_file(bytes), "trace");
    ASSERT_TRUE(trace);
    EXPECT_TRUE(trace->events == made.events);
    EXPECT_EQ(trace->tables, made.tables);
    EXPECT_EQ(trace->file_size.count, bytes.size());
    EXPECT_TRUE(rewrite(bytes, {}) == bytes);
  }
}

TEST(RoundTripOf, AnEmptyTrace) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.count(), 0U);
  EXPECT_EQ(trace->tables, Tables{});
  EXPECT_TRUE(trace->read.has_footer);
  EXPECT_TRUE(rewrite(bytes, {}) == bytes);
}

TEST(RoundTripOf, ExtremeNumbers) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const auto times = {Nanoseconds::max(), Nanoseconds::min(), Nanoseconds(0), Nanoseconds::max(), Nanoseconds(-1)};
  std::vector<Event> events;
  std::uint64_t address = 0;
  for (const Nanoseconds time : times) {
    events.push_back({.kind = EventKind::alloc, .time = time, .address = {address}, .size = {most}});
    events.push_back({.kind = EventKind::alloc_failed, .time = time, .size = {most}, .value = most});
    address = most - address / 2;
  }
  for (const Event& event : events) writer.append(event);
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  std::uint32_t allocation = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind == EventKind::alloc) events[i].allocation = AllocationId{allocation++};
    EXPECT_EQ(trace->events[i], events[i]) << i;
  }
}

TEST(RoundTripOf, StacksLoseTheFramesBeyondTheDeepest) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  StackId stack = StackId::none;
  for (std::uint32_t i = 0; i < max_stack_depth + 2; ++i)
    stack = writer.intern(Stack{.frame = writer.intern(Frame{.line = i + 1}), .caller = stack});
  writer.append({.kind = EventKind::alloc, .stack = stack});
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  std::uint32_t depth = 0;
  for (StackId at = trace->events.stack(0); at != StackId::none; at = trace->tables[at].caller) ++depth;
  EXPECT_EQ(depth, 2U);
  EXPECT_EQ(trace->losses.stack_table_full, 1U);
}

TEST(RoundTripOf, FramesKeepTheModuleThatTheyCall) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const StringId function = writer.intern("_wrapped_call_impl");
  const FrameId plain = writer.intern(Frame{.function = function, .line = 1});
  const FrameId named = writer.intern(Frame{.function = function, .line = 1, .instance = writer.intern("h.0.mlp")});
  const FrameId other = writer.intern(Frame{.function = function, .line = 1, .instance = writer.intern("h.1.mlp")});
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->tables[trace->tables[plain].instance], "");
  EXPECT_EQ(trace->tables[trace->tables[named].instance], "h.0.mlp");
  EXPECT_EQ(trace->tables[trace->tables[other].instance], "h.1.mlp");
}

TEST(RoundTripOf, OriginsKeepWhatWasSaidOfAllocations) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const HeapId heap = writer.intern(Heap{.name = writer.intern("pool")});
  const OriginId plain = writer.intern(Origin{.heap = heap});
  const OriginId said = writer.intern(Origin{.heap = heap, .metadata = writer.intern("weights")});
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->tables[trace->tables[plain].metadata], "");
  EXPECT_EQ(trace->tables[trace->tables[said].metadata], "weights");
}

TEST(RoundTripOf, NamesBecomePrintable) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {.source_name = "a\nb"});
  const StringId name = writer.intern("\x1b[31mred\xe2\x80\xae");
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->tables[name], "\\x1b[31mred\\u202e");
  EXPECT_EQ(trace->header.source_name, "a\\nb");
}

TEST(RoundTripOf, ManyRowsTakesSeveralPackets) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  StackId stack = StackId::none;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const StringId name = writer.intern("function number " + std::to_string(i));
    const bool ends = i % 1000 == 0;
    stack = writer.intern(
        Stack{.frame = writer.intern(Frame{.function = name, .line = i}), .caller = ends ? StackId::none : stack});
  }
  writer.append({.kind = EventKind::alloc, .stack = stack});
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->tables == writer.tables());
  EXPECT_EQ(trace->events.stack(0), stack);
  EXPECT_TRUE(rewrite(bytes, {}) == bytes);
}

TEST(RoundTripOf, StreamedEqualsLoaded) {
  const FileBytes bytes = testing::random_trace(5, 20'000, {.events_per_block = 1000});
  const auto trace = load(memory_file(bytes), "trace");
  auto reader = TraceReader::open(memory_file(bytes), "trace");
  ASSERT_TRUE(trace && reader);
  EventBatch batch;
  std::size_t at = 0, allocations = 0;
  while (*reader->next(batch)) {
    EXPECT_EQ(batch.first_event, at);
    EXPECT_EQ(batch.first_allocation, allocations);
    for (std::size_t i = 0; i < batch.events.count(); ++i, ++at) {
      Event streamed = batch.events[i];
      const Event loaded = trace->events[at];
      if (streamed.kind == EventKind::alloc) ++allocations;
      if (is_free(streamed.kind) && streamed.allocation != AllocationId::none) {
        EXPECT_EQ(streamed.address.value, 0U);  // a stream can't seek back
        streamed.address = loaded.address;
        streamed.size = loaded.size;
      }
      ASSERT_EQ(streamed, loaded);
    }
  }
  EXPECT_EQ(at, trace->events.count());
  EXPECT_EQ(reader->tables(), trace->tables);
  EXPECT_EQ(reader->losses(), trace->losses);
  EXPECT_EQ(reader->report(), trace->read);
}

TEST(RoundTripOf, StateAfterEachBlockIsThatOfTheEvents) {
  const FileBytes bytes = testing::random_trace(6, 20'000, {.events_per_block = 500});
  auto reader = TraceReader::open(memory_file(bytes), "trace");
  ASSERT_TRUE(reader);
  EventBatch batch;
  LiveSet live(reader->tables());
  int blocks = 0;
  while (*reader->next(batch)) {
    for (std::size_t i = 0; i < batch.events.count(); ++i) {
      Event event = batch.events[i];
      live.apply(event);
    }
    ASSERT_EQ(batch.state_after, live.heaps());
    ++blocks;
  }
  EXPECT_EQ(blocks, 40);
}

}  // namespace
}  // namespace memreel
