#include "formats/writer/packets.h"

#include <cstring>
#include <protozero/pbf_builder.hpp>

#include "formats/wire/column.h"
#include "formats/wire/framing.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using wire::PacketField;

/// A packet whose body `fill(message)` writes.
template <class Field, class Fill>
std::string make_packet(PacketField kind, Fill fill) {
  std::string packet = wire::open_packet();
  {
    pbf_builder<PacketField> body(packet);
    pbf_builder<Field> message(body, kind);
    fill(message);
  }
  wire::seal_packet(packet);
  return packet;
}

/// A column with every value written.
template <class Field, class Get>
void add_column(pbf_builder<Field>& message, wire::ColumnEncoder& encoder, Field field, std::size_t count, Get get) {
  const std::string_view bytes = encoder.encode_all(count, get);
  if (!bytes.empty()) message.add_bytes(field, bytes.data(), bytes.size());
}

/// A number, omitted if zero.
template <class Field>
void add_number(pbf_builder<Field>& message, Field field, std::uint64_t number) {
  if (number != 0) message.add_uint64(field, number);
}

std::string encode_rows(const HeapSnapshot& snapshot) {
  using Field = wire::KeyframeRowsField;
  std::string content;
  pbf_builder<Field> message(content);
  wire::ColumnEncoder encoder;
  const auto& live = snapshot.allocations;
  const auto allocations = [&](Field field, auto get) { add_column(message, encoder, field, live.size(), get); };
  allocations(Field::allocation_delta, [&](std::size_t i) -> std::uint64_t {
    return index(live[i].allocation) - (i == 0 ? 0 : index(live[i - 1].allocation));
  });
  allocations(Field::address, [&](std::size_t i) { return live[i].address.value; });
  allocations(Field::size, [&](std::size_t i) { return live[i].size.count; });
  allocations(Field::origin, [&](std::size_t i) -> std::uint64_t { return index(live[i].origin); });
  allocations(Field::stack, [&](std::size_t i) -> std::uint64_t { return index(live[i].stack); });
  allocations(Field::pending, [&](std::size_t i) -> std::uint64_t { return live[i].pending ? 1 : 0; });

  const auto& held = snapshot.segments;
  const auto segments = [&](Field field, auto get) { add_column(message, encoder, field, held.size(), get); };
  segments(Field::segment_address, [&](std::size_t i) { return held[i].address.value; });
  segments(Field::segment_size, [&](std::size_t i) { return held[i].size.count; });
  segments(Field::segment_origin, [&](std::size_t i) -> std::uint64_t { return index(held[i].origin); });
  segments(Field::segment_mapped, [&](std::size_t i) -> std::uint64_t { return held[i].mapped ? 1 : 0; });
  return content;
}

void add_variables(pbf_builder<wire::HeaderField>& message, wire::HeaderField field, const Variables& variables) {
  for (const auto& [name, value] : variables) {
    pbf_builder<wire::VariableField> variable(message, field);
    variable.add_string(wire::VariableField::name, name);
    variable.add_string(wire::VariableField::value, value);
  }
}

}  // namespace

std::string encode_header(const Header& header) {
  using Field = wire::HeaderField;
  return make_packet<Field>(PacketField::header, [&](pbf_builder<Field>& message) {
    message.add_uint32(Field::version, wire::format_version);
    if (!header.producer.empty()) message.add_string(Field::producer, header.producer);
    if (!header.source.empty()) message.add_string(Field::source, header.source);
    if (!header.source_name.empty()) message.add_string(Field::source_name, header.source_name);
    if (!header.host.empty()) message.add_string(Field::host, header.host);
    add_number(message, Field::process, header.process);
    if (header.start.count() != 0) message.add_sint64(Field::start_ns, header.start.count());
    add_variables(message, Field::environment, header.environment);
    add_variables(message, Field::versions, header.versions);
  });
}

std::string encode_losses(const Losses& losses) {
  using Field = wire::LossesField;
  return make_packet<Field>(PacketField::losses, [&](pbf_builder<Field>& message) {
    add_number(message, Field::ring_full, losses.ring_full);
    add_number(message, Field::stack_table_full, losses.stack_table_full);
    add_number(message, Field::hook_refused, losses.hook_refused);
    add_number(message, Field::unknown_actions, losses.unknown_actions);
    add_number(message, Field::unmatched_frees, losses.unmatched_frees);
    add_number(message, Field::preexisting_allocations, losses.preexisting_allocations);
    if (losses.began_late) message.add_bool(Field::began_late, true);
    if (losses.history_overflowed) message.add_bool(Field::history_overflowed, true);
    add_number(message, Field::skipped, losses.skipped.bits());
    add_number(message, Field::folded_events, losses.folded_events);
    if (losses.folded_until.count() != 0) message.add_sint64(Field::folded_until_ns, losses.folded_until.count());
    add_number(message, Field::folded_left_out, losses.folded_left_out);
  });
}

std::string encode_folded(const FoldedHistory& folded, std::span<const FoldedRow> rows, wire::Compressor& compressor) {
  std::string content;
  {
    using Field = wire::FoldedRowsField;
    pbf_builder<Field> message(content);
    wire::ColumnEncoder encoder;
    const auto column = [&](Field field, auto get) { add_column(message, encoder, field, rows.size(), get); };
    column(Field::interval_delta,
           [&](std::size_t i) -> std::uint64_t { return rows[i].interval - (i == 0 ? 0 : rows[i - 1].interval); });
    column(Field::heap, [&](std::size_t i) -> std::uint64_t { return index(rows[i].heap); });
    column(Field::stack, [&](std::size_t i) -> std::uint64_t { return index(rows[i].stack); });
    column(Field::allocations, [&](std::size_t i) { return rows[i].allocations; });
    column(Field::frees, [&](std::size_t i) { return rows[i].frees; });
    column(Field::allocated_bytes, [&](std::size_t i) { return rows[i].allocated.count; });
    column(Field::freed_bytes, [&](std::size_t i) { return rows[i].freed.count; });
  }
  const std::string_view frame = compressor.compress(content);
  using Field = wire::FoldedField;
  return make_packet<Field>(PacketField::folded, [&](pbf_builder<Field>& message) {
    message.add_sint64(Field::begin_ns, folded.begin.count());
    message.add_sint64(Field::until_ns, folded.until.count());
    message.add_sint64(Field::interval_ns, folded.interval.count());
    message.add_bytes(Field::rows_zstd, frame.data(), frame.size());
    message.add_uint32(Field::rows_size, static_cast<std::uint32_t>(content.size()));
  });
}

std::string encode_initial_heap(const InitialHeap& initial, wire::Compressor& compressor) {
  std::string content;
  {
    using Field = wire::InitialHeapRowsField;
    pbf_builder<Field> message(content);
    wire::ColumnEncoder encoder;
    const std::vector<InitialSegment>& held = initial.segments;
    const auto segments = [&](Field field, auto get) {
      add_column(message, encoder, field, held.size(), [&](std::size_t i) -> std::uint64_t { return get(held[i]); });
    };
    segments(Field::segment_address, [](const InitialSegment& s) { return s.address.value; });
    segments(Field::segment_size, [](const InitialSegment& s) { return s.size.count; });
    segments(Field::segment_origin, [](const InitialSegment& s) { return index(s.origin); });
    segments(Field::segment_small, [](const InitialSegment& s) { return std::uint64_t{s.small}; });
    segments(Field::segment_mapped, [](const InitialSegment& s) { return std::uint64_t{s.mapped}; });
    segments(Field::segment_range, [](const InitialSegment& s) { return s.range.value; });
    segments(Field::segment_blocks, [](const InitialSegment& s) { return s.blocks.size(); });
    std::vector<InitialBlock> all;
    for (const InitialSegment& segment : held) all.insert(all.end(), segment.blocks.begin(), segment.blocks.end());
    add_column(message, encoder, Field::block_size, all.size(), [&](std::size_t i) { return all[i].size.count; });
    add_column(message, encoder, Field::block_use, all.size(),
               [&](std::size_t i) { return static_cast<std::uint64_t>(all[i].use); });
  }
  if (content.size() > wire::max_content_size) return {};
  const std::string_view frame = compressor.compress(content);
  using Field = wire::InitialHeapField;
  return make_packet<Field>(PacketField::initial_heap, [&](pbf_builder<Field>& message) {
    message.add_uint32(Field::heap, index(initial.heap));
    message.add_bytes(Field::rows_zstd, frame.data(), frame.size());
    message.add_uint32(Field::rows_size, static_cast<std::uint32_t>(content.size()));
  });
}

std::string encode_keyframe(const HeapSnapshot& snapshot, Nanoseconds time, wire::Compressor& compressor) {
  using Field = wire::KeyframeField;
  const std::string content = encode_rows(snapshot);
  if (content.size() > wire::max_content_size) return {};
  const std::string_view frame = compressor.compress(content);
  std::string packet = make_packet<Field>(PacketField::keyframe, [&](pbf_builder<Field>& message) {
    message.add_uint64(Field::event, snapshot.event);
    message.add_sint64(Field::time_ns, time.count());
    message.add_bytes(Field::rows_zstd, frame.data(), frame.size());
    message.add_uint32(Field::rows_size, static_cast<std::uint32_t>(content.size()));
  });
  return packet.size() > wire::max_packet_size ? std::string{} : packet;
}

std::string encode_footer(const PacketDirectory& packets, std::uint64_t event_count, std::uint64_t allocation_count) {
  using Field = wire::FooterField;
  wire::ColumnEncoder encoder;
  const std::size_t count = packets.field.size();
  std::string packet = make_packet<Field>(PacketField::footer, [&](pbf_builder<Field>& message) {
    add_column(message, encoder, Field::packet_field, count,
               [&](std::size_t i) -> std::uint64_t { return packets.field[i]; });
    add_column(message, encoder, Field::packet_size, count, [&](std::size_t i) { return packets.size[i]; });
    add_column(message, encoder, Field::first_event, count, [&](std::size_t i) { return packets.first_event[i]; });
    add_column(message, encoder, Field::first_time_ns, count,
               [&](std::size_t i) { return wire::zigzag(packets.first_time[i]); });
    message.add_uint64(Field::event_count, event_count);
    message.add_uint64(Field::allocation_count, allocation_count);
    message.add_fixed32(Field::footer_size, 0);
  });
  if (packet.size() > wire::max_packet_size) return {};
  // Its own size is known only now.
  const auto size = static_cast<std::uint32_t>(packet.size());
  std::memcpy(packet.data() + packet.size() - sizeof size, &size, sizeof size);
  wire::seal_packet(packet);
  return packet;
}

}  // namespace memreel
