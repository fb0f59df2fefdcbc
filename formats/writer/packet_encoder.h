// SPDX-License-Identifier: Apache-2.0
// Packets: tables, events, and the others.
#pragma once

#include <span>

#include "formats/model/live_set.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/wire/column.h"
#include "formats/wire/packets.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {

/// Longer texts are cut: a row must fit in a packet.
inline constexpr std::size_t max_text_size = std::size_t{1} << 20U;

/// A packet with the rows after the first `sent` ones, as many as a packet should hold; adds them to `sent`. Call it
/// until `sent` equals row_counts(tables).
std::string encode_tables(const Tables& tables, wire::RowCounts& sent, wire::Compressor& compressor);

/// The columns of an EventColumns message, before packing. trace.proto says which event has a value in which.
struct PendingBlock {
  std::uint64_t first_event = 0;
  std::uint64_t first_allocation = 0;
  std::vector<EventKind> kind;
  std::vector<Nanoseconds> time;
  std::vector<std::uint32_t> origin, stack;
  std::vector<std::uint32_t> requested_back, completed_back;
  std::vector<std::uint64_t> address, size, value;
  std::vector<std::uint64_t> unmatched_address, unmatched_size;

  std::size_t count() const { return kind.size(); }
  /// Empties the columns, keeping their storage.
  void clear();
};

class BlockEncoder {
 public:
  /// `block` is not empty.
  std::string encode(const PendingBlock& block, const std::vector<HeapState>& state_after, const wire::RowCounts& rows,
                     wire::Compressor& compressor);

 private:
  /// The EventColumns message.
  void encode_columns(const PendingBlock& block);

  std::string columns_;
  wire::ColumnEncoder encoder_;
};

std::string encode_header(const Header& header);
std::string encode_losses(const Losses& losses);

/// Some `rows` of `folded`: a packet should hold at most 2^17.
std::string encode_folded(const FoldedHistory& folded, std::span<const FoldedRow> rows, wire::Compressor& compressor);

/// Empty if it is larger than a reader would accept.
std::string encode_initial_heap(const InitialHeap& initial, wire::Compressor& compressor);

std::string encode_python_holders(const PythonHolders& holders, wire::Compressor& compressor);

/// Empty if the state is larger than a reader would accept: keyframes only speed up seeking.
std::string encode_keyframe(const HeapSnapshot& snapshot, Nanoseconds time, wire::Compressor& compressor);

/// Empty if there are more packets than a reader would accept: it then finds them by scanning.
std::string encode_footer(const wire::FooterMessage& footer);

}  // namespace memreel
