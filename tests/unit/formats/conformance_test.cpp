// SPDX-License-Identifier: Apache-2.0
// A file conforms to the published schema when read by code generated from it.
#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <limits>
#include <memory>

#include "formats/reader/packet_decoder.h"
#include "formats/reader/trace_reader.h"
#include "formats/wire/framing.h"
#include "formats/writer/packet_encoder.h"
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

// Packets, each encoded by itself, with every member set to a value of its own.

/// What generated code reads of a packet.
schema::Packet read_packet(const std::string& packet) {
  schema::Trace file;
  EXPECT_TRUE(file.ParseFromString(packet));
  EXPECT_EQ(file.packet_size(), 1);
  return file.packet(0);
}

/// What decode_*() take.
std::string_view message_of(const std::string& packet) {
  return decode_body(std::string_view(packet).substr(wire::head_size))->message;
}

TEST(Conformance, EveryMemberOfAHeader) {
  const Header header{.producer = "producer",
                      .source = "source",
                      .source_name = "name",
                      .host = "host",
                      .process = std::uint64_t{1} << 40U,
                      .start = Nanoseconds(-5),
                      .machine = "machine",
                      .byte_order = ByteOrder::big,
                      .page_size = 4096_B,
                      .environment = {{"RANK", "3"}, {"EMPTY", ""}},
                      .versions = {{"torch", "2.11"}}};
  const std::string packet = encode_header(header);
  EXPECT_EQ(decode_header(message_of(packet)), header);
  const schema::Header read = read_packet(packet).header();
  expect_all_fields(read);
  EXPECT_EQ(read.version(), 1);
  EXPECT_EQ(read.producer(), header.producer);
  EXPECT_EQ(read.source(), header.source);
  EXPECT_EQ(read.source_name(), header.source_name);
  EXPECT_EQ(read.host(), header.host);
  EXPECT_EQ(read.process(), header.process);
  EXPECT_EQ(read.start_ns(), -5);
  EXPECT_EQ(read.machine(), header.machine);
  EXPECT_EQ(read.byte_order(), schema::Header::BIG);
  EXPECT_EQ(read.page_size(), 4096);
  ASSERT_EQ(read.environment_size(), 2);
  EXPECT_EQ(read.environment(1).name(), "RANK");
  EXPECT_EQ(read.environment(1).value(), "3");
  ASSERT_EQ(read.versions_size(), 1);
  EXPECT_EQ(read.versions(0).name(), "torch");
}

TEST(Conformance, EveryMemberOfLosses) {
  const Losses losses{.ring_full = 1,
                      .stack_table_full = 2,
                      .hook_refused = 3,
                      .unknown_actions = 4,
                      .unmatched_frees = 5,
                      .preexisting_allocations = 6,
                      .began_late = true,
                      .history_overflowed = true,
                      .skipped = EventKinds(EventKind::sync) | EventKinds(EventKind::mark),
                      .folded_events = 10,
                      .folded_until = Nanoseconds(-11),
                      .folded_left_out = 12,
                      .unsized_failures = 13};
  const std::string packet = encode_losses(losses);
  EXPECT_EQ(decode_losses(message_of(packet)), losses);
  const schema::Losses read = read_packet(packet).losses();
  expect_all_fields(read);
  EXPECT_EQ(read.ring_full(), 1);
  EXPECT_EQ(read.stack_table_full(), 2);
  EXPECT_EQ(read.hook_refused(), 3);
  EXPECT_EQ(read.unknown_actions(), 4);
  EXPECT_EQ(read.unmatched_frees(), 5);
  EXPECT_EQ(read.preexisting_allocations(), 6);
  EXPECT_EQ(read.skipped(), 1U << schema::SYNC | 1U << schema::MARK);
  EXPECT_EQ(read.folded_events(), 10);
  EXPECT_EQ(read.folded_until_ns(), -11);
  EXPECT_EQ(read.folded_left_out(), 12);
  EXPECT_EQ(read.unsized_failures(), 13);
  // Each alone: the two flags have the same value.
  EXPECT_TRUE(read_packet(encode_losses({.began_late = true})).losses().began_late());
  EXPECT_TRUE(read_packet(encode_losses({.history_overflowed = true})).losses().history_overflowed());
}

TEST(Conformance, EveryMemberOfAnInitialHeap) {
  const InitialHeap initial{.heap = HeapId{7},
                            .segments = {{.address = {0x1000},
                                          .size = 0x300_B,
                                          .origin = OriginId{8},
                                          .small = true,
                                          .range = {0x1000},
                                          .blocks = {{.size = 0x100_B, .use = InitialUse::pending}, {.size = 0x200_B}}},
                                         {.address = {0x9000},
                                          .size = 0x500_B,
                                          .origin = OriginId{9},
                                          .mapped = true,
                                          .range = {0x8000},
                                          .blocks = {{.size = 0x500_B, .use = InitialUse::allocated}}}}};
  wire::Compressor compressor(1);
  wire::Decompressor decompressor;
  const std::string packet = encode_initial_heap(initial, compressor);
  EXPECT_EQ(decode_initial_heap(message_of(packet), decompressor), initial);
  const schema::InitialHeap read = read_packet(packet).initial_heap();
  expect_all_fields(read);
  EXPECT_EQ(read.heap(), 7);
  const auto rows = unpack<schema::InitialHeapRows>(read.rows_zstd(), read.rows_size());
  expect_all_fields(rows);
  InitialHeap same{.heap = HeapId{read.heap()}};
  int block = 0;
  for (int i = 0; i < rows.segment_address_size(); ++i) {
    same.segments.push_back({.address = {rows.segment_address(i)},
                             .size = {rows.segment_size(i)},
                             .origin = OriginId{rows.segment_origin(i)},
                             .small = rows.segment_small(i),
                             .mapped = rows.segment_mapped(i),
                             .range = {rows.segment_range(i)}});
    for (std::uint32_t n = 0; n < rows.segment_blocks(i); ++n, ++block)
      same.segments.back().blocks.push_back(
          {.size = {rows.block_size(block)}, .use = static_cast<InitialUse>(rows.block_use(block))});
  }
  EXPECT_EQ(same, initial);
}

TEST(Conformance, EveryMemberOfPythonHolders) {
  const PythonHolders holders{
      .time = Nanoseconds(-1),
      .took = Nanoseconds(2),
      .objects = 3,
      .note = "note",
      .rows = {{.text = "text", .kind = "kind", .length = 4, .length_before = 5, .blocks = 6, .bytes = 7_B},
               {.text = "other", .kind = "", .length = 8, .length_before = 9, .blocks = 10, .bytes = 11_B}},
      .blocks = {{.address = {0x1000}, .holder = 1}, {.address = {0x3000}, .holder = 0}}};
  wire::Compressor compressor(1);
  wire::Decompressor decompressor;
  const std::string packet = encode_python_holders(holders, compressor);
  EXPECT_EQ(decode_python_holders(message_of(packet), decompressor), holders);
  const schema::PythonHolders read = read_packet(packet).python_holders();
  expect_all_fields(read);
  const auto rows = unpack<schema::PythonHoldersRows>(read.rows_zstd(), read.rows_size());
  expect_all_fields(rows);
  PythonHolders same{.time = Nanoseconds(read.time_ns()),
                     .took = Nanoseconds(static_cast<std::int64_t>(read.took_ns())),
                     .objects = read.objects(),
                     .note = read.note()};
  for (int i = 0; i < rows.text_size(); ++i)
    same.rows.push_back({.text = rows.text(i),
                         .kind = rows.kind(i),
                         .length = rows.length(i),
                         .length_before = rows.length_before(i),
                         .blocks = rows.blocks(i),
                         .bytes = {rows.bytes(i)}});
  std::uint64_t address = 0;
  for (int i = 0; i < rows.block_holder_size(); ++i)
    same.blocks.push_back({.address = {address += rows.block_address_delta(i)}, .holder = rows.block_holder(i)});
  EXPECT_EQ(same, holders);
}

TEST(Conformance, EveryMemberOfAKeyframe) {
  const HeapSnapshot snapshot{
      .event = 9,
      .allocations = {{.allocation = AllocationId{0},
                       .origin = OriginId{1},
                       .stack = StackId{2},
                       .address = {0x1000},
                       .size = 4_B},
                      {.allocation = AllocationId{7},
                       .origin = OriginId{3},
                       .stack = StackId{5},
                       .address = {0x2000},
                       .size = 6_B,
                       .pending = true}},
      .segments = {{.address = {0x1000}, .size = 0x800_B, .origin = OriginId{1}},
                   {.address = {0x2000}, .size = 0x900_B, .origin = OriginId{3}, .mapped = true}}};
  wire::Compressor compressor(1);
  wire::Decompressor decompressor;
  const std::string packet = encode_keyframe(snapshot, Nanoseconds(-8), compressor);
  const KeyframeMessage decoded = decode_keyframe(message_of(packet));
  EXPECT_EQ(decoded.time, Nanoseconds(-8));
  EXPECT_EQ(decode_keyframe_rows(decoded, decompressor), snapshot);
  const schema::Keyframe read = read_packet(packet).keyframe();
  expect_all_fields(read);
  EXPECT_EQ(read.event(), 9);
  EXPECT_EQ(read.time_ns(), -8);
  const auto rows = unpack<schema::KeyframeRows>(read.rows_zstd(), read.rows_size());
  expect_all_fields(rows);
  HeapSnapshot same{.event = read.event()};
  std::uint32_t ordinal = 0;
  for (int i = 0; i < rows.address_size(); ++i)
    same.allocations.push_back({.allocation = AllocationId{ordinal += rows.allocation_delta(i)},
                                .origin = OriginId{rows.origin(i)},
                                .stack = StackId{rows.stack(i)},
                                .address = {rows.address(i)},
                                .size = {rows.size(i)},
                                .pending = rows.pending(i)});
  for (int i = 0; i < rows.segment_address_size(); ++i)
    same.segments.push_back({.address = {rows.segment_address(i)},
                             .size = {rows.segment_size(i)},
                             .origin = OriginId{rows.segment_origin(i)},
                             .mapped = rows.segment_mapped(i)});
  EXPECT_EQ(same, snapshot);
}

TEST(Conformance, EveryMemberOfAFooter) {
  const std::string packet = encode_footer(
      {.packets = {{.kind = wire::PacketField::header, .size = 20, .first_event = 0},
                   {.kind = wire::PacketField::events, .size = 30, .first_event = 1, .first_time = Nanoseconds(-7)}},
       .event_count = 5,
       .allocation_count = 4});
  const schema::Footer read = read_packet(packet).footer();
  expect_all_fields(read);
  EXPECT_EQ(read.packet_field(1), 5);
  EXPECT_EQ(read.packet_size(1), 30);
  EXPECT_EQ(read.first_event(1), 1);
  EXPECT_EQ(read.first_time_ns(1), -7);
  EXPECT_EQ(read.event_count(), 5);
  EXPECT_EQ(read.allocation_count(), 4);
  const auto decoded = decode_footer(message_of(packet));
  ASSERT_TRUE(decoded);
  ASSERT_EQ(decoded->packets.size(), 2);
  EXPECT_EQ(decoded->packets[1].kind, wire::PacketField::events);
  EXPECT_EQ(decoded->packets[1].size, 30);
  EXPECT_EQ(decoded->packets[1].first_event, 1);
  EXPECT_EQ(decoded->packets[1].first_time, Nanoseconds(-7));
  EXPECT_EQ(decoded->event_count, 5);
  EXPECT_EQ(decoded->allocation_count, 4);
}

TEST(Conformance, EveryMemberOfSumsOfAFlightRecorder) {
  const FoldedHistory folded{.begin = Nanoseconds(-10),
                             .until = Nanoseconds(50),
                             .interval = Nanoseconds(7),
                             .rows = {{.interval = 2,
                                       .heap = HeapId{3},
                                       .stack = StackId{4},
                                       .allocations = 5,
                                       .frees = 6,
                                       .allocated = 7_B,
                                       .freed = 8_B},
                                      {.interval = 9,
                                       .heap = HeapId{10},
                                       .stack = StackId{11},
                                       .allocations = 12,
                                       .frees = 13,
                                       .allocated = 14_B,
                                       .freed = 15_B}}};
  wire::Compressor compressor(1);
  wire::Decompressor decompressor;
  const std::string packet = encode_folded(folded, folded.rows, compressor);
  EXPECT_EQ(decode_folded(message_of(packet), decompressor), folded);
  const schema::Folded read = read_packet(packet).folded();
  expect_all_fields(read);
  const auto rows = unpack<schema::FoldedRows>(read.rows_zstd(), read.rows_size());
  expect_all_fields(rows);
  FoldedHistory same{.begin = Nanoseconds(read.begin_ns()),
                     .until = Nanoseconds(read.until_ns()),
                     .interval = Nanoseconds(read.interval_ns())};
  std::uint32_t interval = 0;
  for (int i = 0; i < rows.heap_size(); ++i)
    same.rows.push_back({.interval = interval += rows.interval_delta(i),
                         .heap = HeapId{rows.heap(i)},
                         .stack = StackId{rows.stack(i)},
                         .allocations = rows.allocations(i),
                         .frees = rows.frees(i),
                         .allocated = {rows.allocated_bytes(i)},
                         .freed = {rows.freed_bytes(i)}});
  EXPECT_EQ(same, folded);
}

}  // namespace
}  // namespace memreel
