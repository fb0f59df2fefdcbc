// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/packet_decoder.h"

#include "formats/model/stack_text.h"
#include "formats/wire/column.h"
#include "formats/wire/framing.h"
#include "formats/wire/message.h"

namespace memreel {
namespace {

using wire::MessageReader;

constexpr std::uint64_t max_events = std::uint64_t{1} << 48U;  // nine years at a million per second

HeapState decode_state(std::string_view message) {
  using Field = wire::HeapStateField;
  HeapState state;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::heap:
        state.heap = HeapId{fields.uint32()};
        break;
      case Field::live_bytes:
        state.live = {fields.uint64()};
        break;
      case Field::reserved_bytes:
        state.reserved = {fields.uint64()};
        break;
      default:
        fields.skip();
    }
  }
  return state;
}

/// The first variable with a name counts, as for getenv(3).
void decode_variable(std::string_view message, Variables& variables) {
  using Field = wire::VariableField;
  std::string name, value;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::name:
        name = std::string(fields.bytes());
        break;
      case Field::value:
        value = std::string(fields.bytes());
        break;
      default:
        fields.skip();
    }
  }
  if (variables.size() < max_variables) variables.try_emplace(std::move(name), std::move(value));
}

ByteOrder byte_order(std::uint64_t number) {
  if (number == static_cast<std::uint64_t>(ByteOrder::little)) return ByteOrder::little;
  return number == static_cast<std::uint64_t>(ByteOrder::big) ? ByteOrder::big : ByteOrder::unknown;
}

}  // namespace

std::optional<PacketBody> decode_body(std::string_view body) {
  using Field = wire::PacketField;
  std::optional<PacketBody> found;
  for (MessageReader<Field> fields(body); fields.next();) {
    const bool known = fields.field() >= Field::header && fields.field() <= Field::python_holders && fields.is_bytes();
    if (known)
      found = PacketBody{fields.field(), fields.bytes()};
    else
      fields.skip();
  }
  return found;
}

Header decode_header(std::string_view message) {
  using Field = wire::HeaderField;
  Header header;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::producer:
        header.producer = std::string(fields.bytes());
        break;
      case Field::source:
        header.source = std::string(fields.bytes());
        break;
      case Field::source_name:
        header.source_name = std::string(fields.bytes());
        break;
      case Field::host:
        header.host = std::string(fields.bytes());
        break;
      case Field::process:
        header.process = fields.uint64();
        break;
      case Field::start_ns:
        header.start = Nanoseconds(fields.sint64());
        break;
      case Field::environment:
        decode_variable(fields.bytes(), header.environment);
        break;
      case Field::versions:
        decode_variable(fields.bytes(), header.versions);
        break;
      case Field::machine:
        header.machine = std::string(fields.bytes());
        break;
      case Field::byte_order:
        header.byte_order = byte_order(fields.uint64());
        break;
      case Field::page_size:
        header.page_size = Bytes{fields.uint64()};
        break;
      default:
        fields.skip();
    }
  }
  make_printable(header);
  return header;
}

Losses decode_losses(std::string_view message) {
  using Field = wire::LossesField;
  Losses losses;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::ring_full:
        losses.ring_full = fields.uint64();
        break;
      case Field::stack_table_full:
        losses.stack_table_full = fields.uint64();
        break;
      case Field::hook_refused:
        losses.hook_refused = fields.uint64();
        break;
      case Field::unknown_actions:
        losses.unknown_actions = fields.uint64();
        break;
      case Field::unmatched_frees:
        losses.unmatched_frees = fields.uint64();
        break;
      case Field::preexisting_allocations:
        losses.preexisting_allocations = fields.uint64();
        break;
      case Field::began_late:
        losses.began_late = fields.boolean();
        break;
      case Field::history_overflowed:
        losses.history_overflowed = fields.boolean();
        break;
      case Field::skipped:
        losses.skipped = EventKinds::of_bits(fields.uint64());
        break;
      case Field::folded_events:
        losses.folded_events = fields.uint64();
        break;
      case Field::folded_until_ns:
        losses.folded_until = Nanoseconds(fields.sint64());
        break;
      case Field::folded_left_out:
        losses.folded_left_out = fields.uint64();
        break;
      default:
        fields.skip();
    }
  }
  return losses;
}

std::optional<BlockMessage> decode_block(std::string_view message) {
  using Field = wire::BlockField;
  BlockMessage block;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::count:
        block.count = fields.uint32();
        break;
      case Field::first_event:
        block.first_event = fields.uint64();
        break;
      case Field::first_allocation:
        block.first_allocation = fields.uint64();
        break;
      case Field::first_time_ns:
        block.first_time = Nanoseconds(fields.sint64());
        break;
      case Field::last_time_ns:
        block.last_time = Nanoseconds(fields.sint64());
        break;
      case Field::state:
        block.state_after.push_back(decode_state(fields.bytes()));
        break;
      case Field::rows_before:
        block.rows_before = wire::decode_row_counts(fields.bytes());
        break;
      case Field::columns_zstd:
        block.columns_zstd = fields.bytes();
        break;
      case Field::columns_size:
        block.columns_size = fields.uint32();
        break;
      case Field::allocation_count:
        block.allocation_count = fields.uint32();
        break;
      default:
        fields.skip();
    }
  }
  const bool sane = block.count >= 1 && block.count <= wire::max_events_per_block &&
                    block.allocation_count <= block.count && block.columns_size <= wire::max_columns_size &&
                    block.first_event <= max_events &&
                    block.first_allocation <= index(AllocationId::none) - block.allocation_count;
  if (!sane) return std::nullopt;
  return block;
}

KeyframeMessage decode_keyframe(std::string_view message) {
  using Field = wire::KeyframeField;
  KeyframeMessage keyframe;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::event:
        keyframe.event = fields.uint64();
        break;
      case Field::time_ns:
        keyframe.time = Nanoseconds(fields.sint64());
        break;
      case Field::rows_zstd:
        keyframe.rows_zstd = fields.bytes();
        break;
      case Field::rows_size:
        keyframe.rows_size = fields.uint32();
        break;
      default:
        fields.skip();
    }
  }
  return keyframe;
}

std::optional<HeapSnapshot> decode_keyframe_rows(const KeyframeMessage& keyframe, wire::Decompressor& decompressor) {
  using Field = wire::KeyframeRowsField;
  if (keyframe.rows_size > wire::max_content_size) return std::nullopt;
  const auto content = decompressor.decompress(keyframe.rows_zstd, keyframe.rows_size);
  if (!content) return std::nullopt;

  std::vector<std::uint64_t> delta, address, size, origin, stack, pending;
  std::vector<std::uint64_t> segment_address, segment_size, segment_origin, segment_mapped;
  for (MessageReader<Field> fields(*content); fields.next();) {
    switch (fields.field()) {
      case Field::allocation_delta:
        delta = fields.numbers();
        break;
      case Field::address:
        address = fields.numbers();
        break;
      case Field::size:
        size = fields.numbers();
        break;
      case Field::origin:
        origin = fields.numbers();
        break;
      case Field::stack:
        stack = fields.numbers();
        break;
      case Field::pending:
        pending = fields.numbers();
        break;
      case Field::segment_address:
        segment_address = fields.numbers();
        break;
      case Field::segment_size:
        segment_size = fields.numbers();
        break;
      case Field::segment_origin:
        segment_origin = fields.numbers();
        break;
      case Field::segment_mapped:
        segment_mapped = fields.numbers();
        break;
      default:
        fields.skip();
    }
  }
  const auto same_length = [](const auto& first, const auto&... others) {
    return ((first.size() == others.size()) && ...);
  };
  if (!same_length(delta, address, size, origin, stack, pending) ||
      !same_length(segment_address, segment_size, segment_origin, segment_mapped))
    return std::nullopt;

  HeapSnapshot snapshot{.event = keyframe.event};
  snapshot.allocations.reserve(delta.size());
  std::uint64_t ordinal = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    if ((i > 0 && delta[i] == 0) || delta[i] >= index(AllocationId::none)) return std::nullopt;
    ordinal += delta[i];
    if (ordinal >= index(AllocationId::none)) return std::nullopt;
    snapshot.allocations.push_back({.allocation = AllocationId{static_cast<std::uint32_t>(ordinal)},
                                    .origin = OriginId{static_cast<std::uint32_t>(origin[i])},
                                    .stack = StackId{static_cast<std::uint32_t>(stack[i])},
                                    .address = {address[i]},
                                    .size = {size[i]},
                                    .pending = pending[i] != 0});
  }
  snapshot.segments.reserve(segment_address.size());
  for (std::size_t i = 0; i < segment_address.size(); ++i) {
    snapshot.segments.push_back({.address = {segment_address[i]},
                                 .size = {segment_size[i]},
                                 .origin = OriginId{static_cast<std::uint32_t>(segment_origin[i])},
                                 .mapped = segment_mapped[i] != 0});
  }
  return snapshot;
}

std::optional<FooterMessage> decode_footer(std::string_view message) {
  using Field = wire::FooterField;
  FooterMessage footer;
  std::vector<std::uint64_t> kind, size, first_event, first_time;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::packet_field:
        kind = fields.numbers();
        break;
      case Field::packet_size:
        size = fields.numbers();
        break;
      case Field::first_event:
        first_event = fields.numbers();
        break;
      case Field::first_time_ns:
        first_time = fields.numbers();
        break;
      case Field::event_count:
        footer.event_count = fields.uint64();
        break;
      case Field::allocation_count:
        footer.allocation_count = fields.uint64();
        break;
      default:
        fields.skip();
    }
  }
  const std::size_t count = kind.size();
  if (size.size() != count || first_event.size() != count || first_time.size() != count ||
      footer.event_count > max_events || footer.allocation_count > index(AllocationId::none))
    return std::nullopt;
  footer.packets.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    footer.packets.push_back({.kind = static_cast<wire::PacketField>(kind[i]),
                              .size = size[i],
                              .first_event = first_event[i],
                              .first_time = Nanoseconds(wire::unzigzag(first_time[i]))});
  return footer;
}

}  // namespace memreel
