// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/packet_decoder.h"

#include "formats/model/printable.h"
#include "formats/wire/column.h"
#include "formats/wire/framing.h"
#include "formats/wire/message.h"

namespace memreel {
namespace {

using wire::MessageReader;

constexpr std::uint64_t max_events = std::uint64_t{1} << 48U;  // nine years at a million per second

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
  auto header = wire::read_message<Header>(message);
  make_printable(header);
  return header;
}

Losses decode_losses(std::string_view message) { return wire::read_message<Losses>(message); }

std::optional<BlockMessage> decode_block(std::string_view message) {
  auto block = wire::read_message<BlockMessage>(message);
  const bool sane = block.count >= 1 && block.count <= wire::max_events_per_block &&
                    block.allocation_count <= block.count && block.columns_size <= wire::max_columns_size &&
                    block.first_event <= max_events &&
                    block.first_allocation <= index(AllocationId::none) - block.allocation_count;
  if (!sane) return std::nullopt;
  return block;
}

KeyframeMessage decode_keyframe(std::string_view message) { return wire::read_message<KeyframeMessage>(message); }

std::optional<HeapSnapshot> decode_keyframe_rows(const KeyframeMessage& keyframe, wire::Decompressor& decompressor) {
  const auto content = wire::unpack_rows(keyframe, decompressor);
  if (!content) return std::nullopt;
  wire::ColumnsOf<LiveAllocation> allocations;
  wire::ColumnsOf<LiveSegment> segments;
  wire::read_columns(*content, allocations, segments);
  if (!allocations.have_equal_length() || !segments.have_equal_length()) return std::nullopt;

  HeapSnapshot snapshot{.event = keyframe.event};
  allocations.append_to(snapshot.allocations);
  segments.append_to(snapshot.segments);
  const std::vector<LiveAllocation>& live = snapshot.allocations;
  const auto repeated = std::ranges::adjacent_find(live, {}, &LiveAllocation::allocation);
  if (repeated != live.end() || (!live.empty() && live.back().allocation == AllocationId::none)) return std::nullopt;
  return snapshot;
}

std::optional<FooterMessage> decode_footer(std::string_view message) {
  FooterMessage footer;
  wire::ColumnsOf<FooterMessage::Packet> packets;
  wire::FileRows rows;
  for (MessageReader<std::uint32_t> fields(message); fields.next();)
    if (!packets.read(fields) && !wire::read_field(fields, footer, rows)) fields.skip();
  if (!packets.have_equal_length() || footer.event_count > max_events ||
      footer.allocation_count > index(AllocationId::none))
    return std::nullopt;
  packets.append_to(footer.packets);
  return footer;
}

}  // namespace memreel
