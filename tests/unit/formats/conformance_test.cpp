// SPDX-License-Identifier: Apache-2.0
// A file conforms to the published schema when read by code generated from it.
#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <limits>
#include <memory>

#include "formats/reader/trace_reader.h"
#include "formats/wire/framing.h"
#include "memreel/trace.pb.h"
#include "tests/unit/formats/random_history.h"

namespace memreel {
namespace {

using testing::FileBytes;
namespace schema = memreel::v1;

template <class Message>
Message unpack(const std::string& frame, std::size_t size) {
  std::string content(size, '\0');
  EXPECT_EQ(ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size()), size);
  Message message;
  EXPECT_TRUE(message.ParseFromString(content));
  return message;
}

/// The i-th value of a column with `count` values, by the schema's rule.
template <class Column>
auto value_of(const Column& column, int i, int count) {
  EXPECT_TRUE(column.empty() || column.size() == 1 || column.size() == count);
  using Value = std::decay_t<decltype(column[0])>;
  return column.empty() ? Value{} : column[column.size() == 1 ? 0 : i];
}

/// The tables built from TableRows messages.
void append_rows(const schema::TableRows& rows, Tables& t) {
  for (const auto& text : rows.strings()) t.strings.push_back(text);
  for (const auto& m : rows.modules()) t.modules.push_back({StringId{m.path()}, m.build_id(), {m.base()}, {m.size()}});
  for (int i = 0; i < rows.frame_function_size(); ++i)
    t.frames.push_back({StringId{rows.frame_function(i)}, StringId{rows.frame_file(i)}, rows.frame_line(i),
                        ModuleId{rows.frame_module(i)}, rows.frame_module_offset(i),
                        StringId{rows.frame_instance_size() == 0 ? 0 : rows.frame_instance(i)}});
  for (int i = 0; i < rows.stack_frame_size(); ++i) {
    const auto row = static_cast<std::uint32_t>(t.stacks.size());
    const std::uint32_t back = rows.stack_caller_back(i);
    t.stacks.push_back({FrameId{rows.stack_frame(i)}, StackId{back == 0 ? 0 : row - back}});
  }
  for (const auto& h : rows.heaps())
    t.heaps.push_back(
        {StringId{h.name()}, static_cast<Level>(h.level()), h.device(), HeapId{h.parent()}, !h.completes_at_request()});
  for (const auto& p : rows.pools()) t.pools.push_back({StringId{p.name()}, p.key_high(), p.key_low(), p.inferred()});
  for (const auto handle : rows.stream_handles()) t.streams.push_back({handle});
  for (const auto& thread : rows.threads()) t.threads.push_back({thread.tid(), StringId{thread.name()}});
  for (int i = 0; i < rows.origin_heap_size(); ++i)
    t.origins.push_back({HeapId{rows.origin_heap(i)}, PoolId{rows.origin_pool(i)}, StreamId{rows.origin_stream(i)},
                         ThreadId{rows.origin_thread(i)},
                         StringId{rows.origin_metadata_size() == 0 ? 0 : rows.origin_metadata(i)}});
  for (const auto& m : rows.marks()) t.marks.push_back({StringId{m.name()}, static_cast<MarkPhase>(m.phase())});
  for (const auto& s : rows.settings()) {
    Settings settings;
    for (int i = 0; i < s.keys_size(); ++i) settings.entries.emplace_back(StringId{s.keys(i)}, StringId{s.values(i)});
    t.settings.push_back(settings);
  }
}

/// Events of a block, decoded as the schema's comments describe.
void append_events(const schema::EventBlock& block, std::vector<Event>& events, std::vector<std::size_t>& allocs) {
  const auto c = unpack<schema::EventColumns>(block.columns_zstd(), block.columns_size());
  const int count = static_cast<int>(block.count());
  const std::string& kinds = c.kind();
  const auto kind_at = [&](int i) {
    return static_cast<EventKind>(kinds[kinds.size() == 1 ? 0 : static_cast<std::size_t>(i)]);
  };
  int requests = 0, completions = 0, addresses = 0, sizes = 0, values = 0, unmatched = 0;
  for (int i = 0; i < count; ++i) {
    const EventKind kind = kind_at(i);
    requests += kind == EventKind::free_requested;
    completions += kind == EventKind::free_completed;
    addresses += has_address(kind) && !is_free(kind);
    sizes += has_size(kind) && !is_free(kind);
    values += has_value(kind);
  }
  for (int i = 0; i < requests; ++i) unmatched += value_of(c.requested_back(), i, requests) == 0;
  for (int i = 0; i < completions; ++i) unmatched += value_of(c.completed_back(), i, completions) == 1;

  int request = 0, completion = 0, address = 0, size = 0, value = 0, stray = 0;
  std::int64_t time = block.first_time_ns();
  std::int64_t requested = -1;
  const auto place = [&](std::uint64_t code) { return Address{c.address_base() + (code << c.address_shift())}; };
  for (int i = 0; i < count; ++i) {
    Event e{.kind = kind_at(i)};
    time += value_of(c.time_delta(), i, count) * std::max<std::int64_t>(c.time_unit_ns(), 1);
    e.time = Nanoseconds(time);
    e.origin = OriginId{value_of(c.origin(), i, count)};
    e.stack = StackId{value_of(c.stack(), i, count)};
    if (is_free(e.kind)) {
      const auto latest = static_cast<std::int64_t>(allocs.size());
      std::int64_t freed = -1;
      if (e.kind == EventKind::free_requested) {
        const auto back = value_of(c.requested_back(), request++, requests);
        freed = requested = back == 0 ? -1 : latest - back;
      } else {
        const auto code = value_of(c.completed_back(), completion++, completions);
        freed = code == 0 ? requested : code == 1 ? -1 : latest - (code - 1);
      }
      if (freed < 0) {
        e.address = place(value_of(c.unmatched_address(), stray, unmatched));
        e.size = {value_of(c.unmatched_size(), stray++, unmatched)};
      } else {
        const Event& alloc = events[allocs[static_cast<std::size_t>(freed)]];
        e.allocation = alloc.allocation;
        e.address = alloc.address;
        e.size = alloc.size;
      }
    } else {
      if (has_address(e.kind)) e.address = place(value_of(c.address(), address++, addresses));
      if (has_size(e.kind)) e.size = {value_of(c.size(), size++, sizes)};
      if (has_value(e.kind)) e.value = value_of(c.value(), value++, values);
    }
    if (e.kind == EventKind::alloc) {
      e.allocation = AllocationId{static_cast<std::uint32_t>(allocs.size())};
      allocs.push_back(events.size());
    }
    events.push_back(e);
  }
  EXPECT_EQ(time, block.last_time_ns());
}

TEST(Conformance, GeneratedCodeReadsTheSame) {
  const FileBytes bytes = testing::random_trace(1, 20'000, {.events_per_block = 3000, .events_per_keyframe = 5000});
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  schema::Trace file;
  ASSERT_TRUE(file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));

  Tables tables;
  std::vector<Event> events;
  std::vector<std::size_t> allocs;
  int keyframes = 0;
  for (const auto& packet : file.packet()) {
    EXPECT_EQ(packet.sync(), 0x0A4C4545524D454DU);
    EXPECT_TRUE(packet.GetReflection()->GetUnknownFields(packet).empty());
    if (packet.has_tables()) {
      EXPECT_EQ(packet.tables().rows_before().strings(), tables.strings.size() - 1);
      EXPECT_EQ(packet.tables().rows_before().settings(), tables.settings.size() - 1);
      append_rows(unpack<schema::TableRows>(packet.tables().rows_zstd(), packet.tables().rows_size()), tables);
    }
    if (packet.has_events()) {
      EXPECT_EQ(packet.events().first_event(), events.size());
      EXPECT_EQ(packet.events().first_allocation(), allocs.size());
      EXPECT_EQ(packet.events().rows_before().stacks(), tables.stacks.size() - 1);
      append_events(packet.events(), events, allocs);
    }
    if (packet.has_keyframe()) {
      EXPECT_EQ(packet.keyframe().event(), events.size());
      EXPECT_EQ(packet.keyframe().time_ns(), events.back().time.count());
      const auto rows = unpack<schema::KeyframeRows>(packet.keyframe().rows_zstd(), packet.keyframe().rows_size());
      EXPECT_GT(rows.address_size(), 0);
      EXPECT_EQ(rows.address_size(), rows.pending_size());
      ++keyframes;
    }
  }
  EXPECT_EQ(tables, trace->tables);
  EXPECT_EQ(keyframes, 3);
  ASSERT_EQ(events.size(), trace->events.count());
  for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i], trace->events[i]) << i;

  // The footer describes every packet before it, and the last bytes point to it.
  const auto& last = file.packet(file.packet_size() - 1);
  ASSERT_TRUE(last.has_footer());
  const schema::Footer& footer = last.footer();
  ASSERT_EQ(footer.packet_field_size(), file.packet_size() - 1);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t offset = 0;
  for (int i = 0; i < footer.packet_field_size(); ++i) {
    EXPECT_EQ(static_cast<int>(footer.packet_field(i)), static_cast<int>(file.packet(i).body_case()));
    EXPECT_EQ(footer.packet_size(i), wire::parse_head(text.substr(offset))->packet_size);
    offset += footer.packet_size(i);
  }
  EXPECT_EQ(footer.event_count(), events.size());
  EXPECT_EQ(footer.allocation_count(), allocs.size());
  EXPECT_EQ(footer.footer_size(), bytes.size() - offset);
  std::uint32_t tail = 0;
  std::memcpy(&tail, bytes.data() + bytes.size() - sizeof tail, sizeof tail);
  EXPECT_EQ(tail, footer.footer_size());
}

/// That `message` has each field of the schema, in one row at least: none is in the schema only.
void expect_all_fields(const google::protobuf::Message& message) {
  const auto& reflection = *message.GetReflection();
  EXPECT_TRUE(reflection.GetUnknownFields(message).empty()) << message.GetTypeName();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* field = message.GetDescriptor()->field(i);
    if (!field->is_repeated()) {
      EXPECT_TRUE(reflection.HasField(message, field)) << field->full_name();
      continue;
    }
    const int rows = reflection.FieldSize(message, field);
    EXPECT_GT(rows, 0) << field->full_name();
    if (field->message_type() == nullptr || rows == 0) continue;
    const std::unique_ptr<google::protobuf::Message> all(reflection.GetRepeatedMessage(message, field, 0).New());
    for (int row = 0; row < rows; ++row) all->MergeFrom(reflection.GetRepeatedMessage(message, field, row));
    expect_all_fields(*all);
  }
}

TEST(Conformance, EveryMemberOfARow) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {.producer = "test"});
  const auto text = [&](int i) { return writer.intern("text " + std::to_string(i)); };
  for (int i = 0; i < 20; ++i) text(i);
  // Others before each row, so that the numbers of rows differ, too.
  for (std::uint64_t i = 1; i <= 3; ++i) writer.intern(Module{.base = {i}});
  for (std::uint64_t i = 1; i <= 4; ++i) writer.intern(Stream{i});
  for (std::uint64_t i = 1; i <= 5; ++i) writer.intern(Thread{.tid = i});
  for (std::uint64_t i = 1; i <= 6; ++i) writer.intern(Pool{.key_low = i});
  const ModuleId module = writer.intern(
      Module{.path = text(1), .build_id = std::string("\0\x81\n", 3), .base = {0x7F00'0000'1000}, .size = {77}});
  const FrameId outer = writer.intern(Frame{.function = text(9)});
  const FrameId inner = writer.intern(Frame{.function = text(2),
                                            .file = text(3),
                                            .line = 4'000'000'000,
                                            .module = module,
                                            .module_offset = 0xFFFF'FFFF'0000'0001,
                                            .instance = text(4)});
  writer.intern(Stack{.frame = inner, .caller = writer.intern(Stack{.frame = outer})});
  const HeapId parent = writer.intern(Heap{.name = text(5)});
  const HeapId heap = writer.intern(Heap{.name = text(6),
                                         .level = Level::framework,
                                         .device = std::numeric_limits<std::int32_t>::min(),
                                         .parent = parent,
                                         .observes_completion = false});
  const PoolId pool = writer.intern(
      Pool{.name = text(7), .key_high = 0x1234'5678'9ABC'DEF0, .key_low = 0xFEDC'BA98'7654'3210, .inferred = true});
  const StreamId stream = writer.intern(Stream{0xDEAD'BEEF'0000'0001});
  const ThreadId thread = writer.intern(Thread{.tid = std::uint64_t{1} << 40U, .name = text(8)});
  writer.intern(Origin{.heap = heap, .pool = pool, .stream = stream, .thread = thread, .metadata = text(10)});
  writer.intern(Mark{.name = text(11), .phase = MarkPhase::begin});
  writer.intern(Mark{.name = text(12), .phase = MarkPhase::end});
  writer.intern(Settings{.entries = {{text(13), text(14)}, {text(15), StringId::none}}});
  writer.append(Event{.kind = EventKind::mark, .value = 1});
  const Tables written = writer.tables();
  ASSERT_TRUE(writer.finish());

  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->tables, written);
  schema::Trace file;
  ASSERT_TRUE(file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  Tables tables;
  for (const auto& packet : file.packet()) {
    if (packet.has_events()) expect_all_fields(packet.events().rows_before());
    if (!packet.has_tables()) continue;
    const auto rows = unpack<schema::TableRows>(packet.tables().rows_zstd(), packet.tables().rows_size());
    append_rows(rows, tables);
    expect_all_fields(rows);
  }
  EXPECT_EQ(tables, written);
}

TEST(Conformance, SumsOfAFlightRecorder) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {.producer = "test"});
  const HeapId heap = writer.intern(Heap{.name = writer.intern("heap")});
  const FoldedHistory folded{.begin = Nanoseconds(10),
                             .until = Nanoseconds(50),
                             .interval = Nanoseconds(7),
                             .rows = {{.interval = 2, .heap = heap, .allocations = 3, .allocated = 30_B},
                                      {.interval = 5, .heap = heap, .frees = 1, .freed = 10_B}}};
  writer.set_folded(folded);
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->folded, folded);
  schema::Trace file;
  ASSERT_TRUE(file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  int found = 0;
  for (const auto& packet : file.packet()) {
    if (!packet.has_folded()) continue;
    ++found;
    EXPECT_EQ(packet.folded().begin_ns(), 10);
    EXPECT_EQ(packet.folded().until_ns(), 50);
    EXPECT_EQ(packet.folded().interval_ns(), 7);
    const auto rows = unpack<schema::FoldedRows>(packet.folded().rows_zstd(), packet.folded().rows_size());
    ASSERT_EQ(rows.interval_delta_size(), 2);
    EXPECT_EQ(rows.interval_delta(1), 3);
    EXPECT_EQ(rows.heap(1), index(heap));
    EXPECT_EQ(rows.allocations(0), 3);
    EXPECT_EQ(rows.allocated_bytes(0), 30);
    EXPECT_EQ(rows.freed_bytes(1), 10);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace memreel
