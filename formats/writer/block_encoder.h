// Encodes events as EventBlock packets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/live_set.h"
#include "formats/wire/column.h"
#include "formats/wire/row_counts.h"
#include "formats/wire/zstd.h"

namespace memreel {

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

}  // namespace memreel
