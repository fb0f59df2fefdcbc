// Decodes the columns of an EventBlock into events.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/trace.h"
#include "formats/reader/allocation_numbers.h"
#include "formats/reader/packet_decoder.h"
#include "formats/reader/table_decoder.h"
#include "formats/wire/zstd.h"

namespace memreel {

struct DecodedBlock {
  bool sound = false;                // false: the block is damaged, and nothing was appended
  std::uint64_t unknown_events = 0;  // appended with kind `unknown`
  std::uint64_t orphaned_frees = 0;  // their allocation has no ID
};

/// The columns that only some kinds have, unpacked.
struct DetailColumns {
  std::vector<std::uint64_t> requested_back, completed_back, address, size, value;
};

class BlockDecoder {
 public:
  /// Appends the events of `block` to `events`, one row each: IDs and allocations are mapped by `row_space` and
  /// `allocations`, which end before the block. `row_space` must include everything the block refers to. May throw
  /// protozero::exception, with nothing appended.
  DecodedBlock decode(const BlockMessage& block, const RowSpace& row_space, const AllocationNumbers& allocations,
                      EventColumns& events);

  wire::Decompressor& decompressor() { return decompressor_; }

 private:
  wire::Decompressor decompressor_;
  DetailColumns details_;
};

/// Removes rows of kind `unknown` from `begin` on.
void remove_unknown(EventColumns& events, std::size_t begin);

}  // namespace memreel
