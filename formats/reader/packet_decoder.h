// Packets into values, except tables and the columns of blocks.
//
// These functions throw protozero::exception when a message is malformed: a packet whose CRC is right and that still
// can't be read is damage like any other, and is caught in one place by each reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/model/live_set.h"
#include "formats/model/trace.h"
#include "formats/wire/row_counts.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {

struct PacketBody {
  wire::PacketField kind;
  std::string_view message;
};

/// None when the packet is of a kind that this version does not know.
std::optional<PacketBody> decode_body(std::string_view body);

Header decode_header(std::string_view message);
Losses decode_losses(std::string_view message);

/// With the ids of the file; none when it contradicts itself.
std::optional<FoldedHistory> decode_folded(std::string_view message, wire::Decompressor& decompressor);

/// An EventBlock message, without unpacking its columns. Numbers and ids are those of the file.
struct BlockMessage {
  std::uint32_t count = 0;
  std::uint32_t allocation_count = 0;
  std::uint64_t first_event = 0;
  std::uint64_t first_allocation = 0;
  Nanoseconds first_time{}, last_time{};
  std::vector<HeapState> state_after;
  wire::RowCounts rows_before;
  std::string_view columns_zstd;
  std::size_t columns_size = 0;

  std::uint64_t end_event() const { return first_event + count; }
  std::uint64_t end_allocation() const { return first_allocation + allocation_count; }
};

/// None when its numbers are out of bounds.
std::optional<BlockMessage> decode_block(std::string_view message);

struct KeyframeMessage {
  std::uint64_t event = 0;
  Nanoseconds time{};
  std::string_view rows_zstd;
  std::size_t rows_size = 0;
};

KeyframeMessage decode_keyframe(std::string_view message);
/// The state of a keyframe, with ordinals and ids of the file; none when it contradicts itself.
std::optional<HeapSnapshot> decode_keyframe_rows(const KeyframeMessage& keyframe, wire::Decompressor& decompressor);

struct FooterMessage {
  struct Packet {
    wire::PacketField kind;
    std::uint64_t size = 0;
    std::uint64_t first_event = 0;
    Nanoseconds first_time{};
  };
  std::vector<Packet> packets;
  std::uint64_t event_count = 0;
  std::uint64_t allocation_count = 0;
};

/// None when its columns differ in length.
std::optional<FooterMessage> decode_footer(std::string_view message);

}  // namespace memreel
