// SPDX-License-Identifier: Apache-2.0
// Decodes packets, except tables and the columns of blocks.
//
// These functions throw protozero::exception on malformed messages: a packet with a correct CRC that still can't be
// decoded is damage like any other, and each reader catches it in one place.
#pragma once

#include "formats/model/live_set.h"
#include "formats/model/trace.h"
#include "formats/wire/packets.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {

struct PacketBody {
  wire::PacketField kind;
  std::string_view message;
};

/// None if this version does not know the packet's kind.
std::optional<PacketBody> decode_body(std::string_view body);

Header decode_header(std::string_view message);
Losses decode_losses(std::string_view message);

/// With the file's IDs; none if it is inconsistent.
std::optional<FoldedHistory> decode_folded(std::string_view message, wire::Decompressor& decompressor);

/// With the file's IDs; none if it is inconsistent: segments that overlap, or that their blocks don't fill.
std::optional<InitialHeap> decode_initial_heap(std::string_view message, wire::Decompressor& decompressor);

/// None if its columns differ in length, or its rows can't be read.
std::optional<PythonHolders> decode_python_holders(std::string_view message, wire::Decompressor& decompressor);

using wire::BlockMessage;

/// None if its numbers are out of range.
std::optional<BlockMessage> decode_block(std::string_view message);

using wire::FooterMessage;
using wire::KeyframeMessage;

KeyframeMessage decode_keyframe(std::string_view message);
/// A keyframe's state, with the file's ordinals and IDs; none if it is inconsistent.
std::optional<HeapSnapshot> decode_keyframe_rows(const KeyframeMessage& keyframe, wire::Decompressor& decompressor);

/// None if its columns differ in length.
std::optional<FooterMessage> decode_footer(std::string_view message);

}  // namespace memreel
