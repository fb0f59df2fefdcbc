// Packets other than tables and events.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/model/live_set.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {

std::string encode_header(const Header& header);
std::string encode_losses(const Losses& losses);

/// Some `rows` of `folded`: a packet should hold at most 2^17.
std::string encode_folded(const FoldedHistory& folded, std::span<const FoldedRow> rows, wire::Compressor& compressor);

/// Empty if it is larger than a reader would accept.
std::string encode_initial_heap(const InitialHeap& initial, wire::Compressor& compressor);

/// Empty if the state is larger than a reader would accept: keyframes only speed up seeking.
std::string encode_keyframe(const HeapSnapshot& snapshot, Nanoseconds time, wire::Compressor& compressor);

/// The positions of a trace's packets.
struct PacketDirectory {
  std::vector<std::uint32_t> field;
  std::vector<std::uint64_t> size;
  std::vector<std::uint64_t> first_event;
  std::vector<std::int64_t> first_time;  // ns
};

/// Empty if there are more packets than a reader would accept: it then finds them by scanning.
std::string encode_footer(const PacketDirectory& packets, std::uint64_t event_count, std::uint64_t allocation_count);

}  // namespace memreel
