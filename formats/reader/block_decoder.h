// SPDX-License-Identifier: Apache-2.0
// Decodes the columns of an EventBlock into events.
#pragma once

#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/reader/packet_decoder.h"
#include "formats/reader/table_decoder.h"
#include "formats/wire/zstd.h"

namespace memreel {

// Maps a file's allocation ordinals to the reader's IDs.

/// They are equal in an undamaged trace. If blocks are missing, IDs stay dense: allocations in such a gap have none. In
/// a concatenation, ordinals restart at zero with each trace, while IDs continue.
class AllocationNumbers {
 public:
  AllocationNumbers() = default;
  /// Every ordinal below `end` has an ID larger by `first_id`.
  AllocationNumbers(std::uint64_t end, std::uint64_t first_id) : runs_{{0, end, first_id}}, next_id_(first_id + end) {}

  /// The next trace of a concatenation begins.
  void begin_trace() { runs_.clear(); }

  /// Allocations `begin` .. `begin + count - 1` get the next IDs. `begin` must not be less than next_ordinal().
  void add(std::uint64_t begin, std::uint64_t count);

  std::uint64_t next_ordinal() const { return runs_.empty() ? 0 : runs_.back().end; }
  std::uint64_t next_id() const { return next_id_; }

  /// None if the allocation is missing.
  AllocationId operator[](std::uint64_t ordinal) const {
    if (runs_.size() == 1 && ordinal >= runs_[0].begin && ordinal < runs_[0].end) [[likely]]
      return id(runs_[0], ordinal);
    return find(ordinal);
  }

 private:
  struct Run {
    std::uint64_t begin = 0, end = 0;  // ordinals
    std::uint64_t first_id = 0;
  };

  static AllocationId id(const Run& run, std::uint64_t ordinal) {
    return AllocationId{static_cast<std::uint32_t>(run.first_id + (ordinal - run.begin))};
  }
  AllocationId find(std::uint64_t ordinal) const;

  std::vector<Run> runs_;  // in order; a single one if nothing is missing
  std::uint64_t next_id_ = 0;
};

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
