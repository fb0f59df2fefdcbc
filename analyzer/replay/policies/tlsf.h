// SPDX-License-Identifier: Apache-2.0
// tlsf{classes=32,align=512,page=2MiB}: two-level segregated fit, a good fit in a bounded number of steps.
//
// - Free blocks are listed by class: every doubling of the size has `classes` of them; sizes below `classes` times
//   `align` have one for each multiple of `align`.
// - A request is rounded up to the smallest size of a class and takes that much from the most recently freed block in
//   the first nonempty class, from its own upward; two bitmaps find it. Every block of the class is large enough, so
//   none is inspected; a block that is large enough but in the class below is not found.
// - The remainder of the block goes into the list of its class, as does a freed block after merging with both
//   neighbours.
// - The range grows and shrinks as in growing_range.h: the authors' allocator is given its pool.
//
// Source: Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator for real-time systems" (ECRTS 2004)
// and the authors' implementation 2.4, in which the allocation keeps its rounding (at most 1 in `classes`); some later
// implementations round for the search only.
#pragma once

#include <array>
#include <bit>

#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/policies/growing_range.h"

namespace memreel {

struct TlsfSettings : GrowingRangeSettings {
  unsigned classes = 32;  // a power of two from 2 to 64
};

class TlsfPlacement {
 public:
  explicit TlsfPlacement(BlockTable& table, Bytes align, unsigned classes = TlsfSettings{}.classes)
      : table_(table),
        unit_log2_(static_cast<unsigned>(std::countr_zero(align.count))),
        columns_log2_(static_cast<unsigned>(std::countr_zero(classes))),
        records_(std::size_t{last_row + 1} << columns_log2_),
        lists_((last_row + 1) << columns_log2_) {}

  /// The smallest class size that is at least `size`, a multiple of `align`.
  Bytes rounded(Bytes size) const {
    const std::uint32_t row = row_of_units(size.count >> unit_log2_);
    const std::uint32_t step_log2 = unit_log2_ + row - static_cast<std::uint32_t>(row != 0);
    return round_up(size, Bytes{std::uint64_t{1} << step_log2});
  }

  void insert(BlockId id) {
    Block& block = table_[id];
    const std::uint32_t number = number_of(block.size);
    block.arena = number;
    lists_.push_front(number, id);
    Row& row = rows_[row_of(number)];
    row.occupied |= bit_of(column_of(number));
    occupied_rows_ |= bit_of(row_of(number));
    if ((row.recorded & bit_of(column_of(number))) != 0) [[unlikely]]
      record_insert(number, block.size);
    largest_ = std::max(largest_, block.size);
  }

  void erase(BlockId id) {
    const Block& block = table_[id];
    const std::uint32_t number = block.arena;
    const auto emptied = static_cast<std::uint64_t>(lists_.erase(id));
    Row& row = rows_[row_of(number)];
    row.occupied &= ~(emptied << column_of(number));
    occupied_rows_ &= ~(static_cast<std::uint64_t>(row.occupied == 0) << row_of(number));
    if ((row.recorded & bit_of(column_of(number))) != 0) [[unlikely]]
      record_erase(number, block.size);
    if (block.size == largest_) [[unlikely]]
      find_largest();
  }

  /// `size` must come from rounded().
  BlockId find(Bytes size) const {
    if (size > largest_) return BlockId::none;
    const std::uint32_t number = number_of(size);
    const std::uint32_t own = row_of(number);
    // Looks at both rows, whichever is needed: the choice is unpredictable.
    const std::uint32_t next = lowest_bit(occupied_rows_ >> own >> 1U | bit_of(last_row - own)) + own + 1;
    const std::uint64_t in_own = rows_[own].occupied >> column_of(number) << column_of(number);
    const std::uint64_t in_next = rows_[next].occupied;
    const std::uint32_t row = in_own != 0 ? own : next;
    const std::uint64_t columns = in_own != 0 ? in_own : in_next;
    return lists_.front((row << columns_log2_) + lowest_bit(columns));
  }

  void placed(const Block&) {}
  Bytes largest() const { return largest_; }

 private:
  static constexpr unsigned last_row = 45 - 8 + 1;  // for 2^45 bytes in units of 2^8, were there one class a doubling

  struct Row {
    std::uint64_t occupied = 0;  // bit set of classes that have blocks, by column
    std::uint64_t recorded = 0;  // likewise, of classes that have a record
  };

  /// What is known of a class that once had the largest block of all, until that block is gone: avoids scanning many
  /// blocks of one size each time they are taken and freed in turn.
  struct Record {
    Bytes largest;
    std::uint32_t as_large = 0;  // number of blocks of that size
  };

  static std::uint64_t bit_of(std::uint32_t i) { return std::uint64_t{1} << i; }
  static std::uint32_t lowest_bit(std::uint64_t word) { return static_cast<std::uint32_t>(std::countr_zero(word)); }

  static std::uint32_t highest_bit(std::uint64_t word) { return static_cast<std::uint32_t>(std::bit_width(word)) - 1; }

  /// Numbers classes by size: row by row, one row per doubling, the first for smaller sizes.
  std::uint32_t number_of(Bytes size) const {
    const std::uint64_t units = size.count >> unit_log2_;
    const std::uint32_t row = row_of_units(units);
    const std::uint32_t shift = row - static_cast<std::uint32_t>(row != 0);
    return (row << columns_log2_) + (static_cast<std::uint32_t>(units >> shift) & ((1U << columns_log2_) - 1));
  }
  std::uint32_t row_of_units(std::uint64_t units) const {
    const std::uint64_t first_row = (std::uint64_t{1} << columns_log2_) - 1;
    return static_cast<std::uint32_t>(std::bit_width(units | first_row)) - columns_log2_;
  }
  std::uint32_t row_of(std::uint32_t number) const { return number >> columns_log2_; }
  std::uint32_t column_of(std::uint32_t number) const { return number & ((1U << columns_log2_) - 1); }

  void record_insert(std::uint32_t number, Bytes size);
  void record_erase(std::uint32_t number, Bytes size);
  void find_largest();

  BlockTable& table_;
  unsigned unit_log2_, columns_log2_;
  std::uint64_t occupied_rows_ = 0;
  std::array<Row, last_row + 2> rows_{};  // the last one is never occupied
  std::vector<Record> records_;           // by class
  FreeLists lists_;
  Bytes largest_;
};

class Tlsf : public GrowingRange<TlsfPlacement> {
 public:
  Tlsf(const Prepared& heap, const TlsfSettings& settings, SimulatedDevice& device)
      : GrowingRange(heap, settings, device, settings.classes) {}
};

PolicyEntry tlsf_entry();

}  // namespace memreel
