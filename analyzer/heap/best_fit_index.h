// Free blocks ordered by (size, address): exact best fit, ties to the lowest address.
//
// This is the order of the std::set that real allocators keep, found another way. Sizes fall into bins: 32 for every
// doubling, so up to 32 units each size has a bin of its own and beyond that a bin spans 3 % of its size. Bitmaps tell
// which bins hold anything, and a bin keeps its few blocks sorted in one array. The usual search is a few loads and two
// bit scans where a tree follows a dozen pointers. A bin that grows long (a heap with thousands of holes of one size)
// becomes a sequence of chunks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "analyzer/heap/block_table.h"
#include "analyzer/heap/sorted_chunks.h"
#include "formats/model/units.h"

namespace memreel {

class BestFitIndex {
  struct Entry;

 public:
  /// Sizes are multiples of 2^`unit_log2` bytes; unit_log2 >= 8.
  explicit BestFitIndex(unsigned unit_log2) : unit_log2_(unit_log2) { assert(unit_log2 >= 8); }

  /// No block may be larger: 32 TiB.
  static constexpr Bytes max_size{std::uint64_t{1} << 45U};

  /// A block and where it is; valid until the index changes.
  class Found {
   public:
    explicit operator bool() const { return entry_ != nullptr; }
    BlockId block() const { return entry_->block; }

   private:
    friend class BestFitIndex;
    const Entry* entry_ = nullptr;
    unsigned row_ = 0, column_ = 0;
  };

  void insert(Address address, Bytes size, BlockId block) {
    const Slot slot = slot_of(size);
    if (!rows_[slot.row]) [[unlikely]]
      rows_[slot.row] = std::make_unique<Row>();
    Row& row = *rows_[slot.row];
    row.bins[slot.column].insert({address, slot.offset, block});
    row.occupied |= 1U << slot.column;
    occupied_rows_ |= std::uint64_t{1} << slot.row;
  }

  /// The block must be present.
  void erase(Address address, Bytes size) {
    const Slot slot = slot_of(size);
    Bin& bin = rows_[slot.row]->bins[slot.column];
    bin.erase(bin.lower_bound({address, slot.offset, BlockId::none}));
    if (bin.empty()) vacate(slot.row, slot.column);
  }

  void erase(const Found& found) {
    Bin& bin = rows_[found.row_]->bins[found.column_];
    bin.erase(found.entry_);
    if (bin.empty()) vacate(found.row_, found.column_);
  }

  /// The smallest block of at least `size` bytes; of several, the one at the lowest address.
  Found find(Bytes size) const {
    Found found;
    if (size > max_size) return found;
    const Slot slot = slot_of(size);
    std::uint64_t rows = occupied_rows_ >> slot.row;
    if ((rows & 1U) != 0) {
      const Row& row = *rows_[slot.row];
      const std::uint32_t bins = row.occupied >> slot.column;
      if ((bins & 1U) != 0) {
        found.entry_ = row.bins[slot.column].lower_bound({Address{0}, slot.offset, BlockId::none});
        found.row_ = slot.row;
        found.column_ = slot.column;
        if (found) return found;
      }
      if (bins > 1) return front_of(slot.row, slot.column + 1 + lowest_bit(bins >> 1U));
    }
    rows >>= 1U;
    if (rows == 0) return found;
    const unsigned next = slot.row + 1 + lowest_bit(rows);
    return front_of(next, lowest_bit(rows_[next]->occupied));
  }

  bool empty() const { return occupied_rows_ == 0; }

  /// The size of the largest block, 0 when there is none.
  Bytes largest() const {
    if (empty()) return {};
    const auto row = static_cast<unsigned>(std::bit_width(occupied_rows_)) - 1;
    const auto column = static_cast<unsigned>(std::bit_width(rows_[row]->occupied)) - 1;
    const std::uint64_t smallest = row == 0 ? column : std::uint64_t{column + columns} << (row - 1);
    return {(smallest + rows_[row]->bins[column].last().offset) << unit_log2_};
  }

  /// Every block, in order.
  std::vector<BlockId> ordered() const;

 private:
  static constexpr unsigned columns_log2 = 5;
  static constexpr unsigned columns = 1U << columns_log2;
  static constexpr unsigned row_count = 45 - 8 - columns_log2 + 2;  // up to max_size in units of 256 bytes

  struct Entry {
    Address address;
    std::uint32_t offset = 0;  // its size in units, less the smallest size of its bin: below 2^32 given max_size
    BlockId block = BlockId::none;

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.address < b.address;
    }
  };

  struct LastEntry {
    Entry last;
    static LastEntry of(std::span<const Entry> entries) { return {entries.back()}; }
  };

  /// Blocks of nearly one size, sorted.
  class Bin {
   public:
    bool empty() const { return long_ == nullptr && short_.empty(); }
    const Entry& first() const { return long_ ? long_->chunk(0).front() : short_.front(); }
    const Entry& last() const { return long_ ? long_->directory().back().last : short_.back(); }

    /// The first entry not before `entry`, or null.
    const Entry* lower_bound(const Entry& entry) const {
      if (long_) [[unlikely]]
        return long_->lower_bound(entry);
      const auto found = std::lower_bound(short_.begin(), short_.end(), entry);
      return found == short_.end() ? nullptr : &*found;
    }

    void insert(const Entry& entry) {
      if (long_ || short_.size() == longest_array) [[unlikely]]
        return insert_in_chunks(entry);
      short_.insert(std::lower_bound(short_.begin(), short_.end(), entry), entry);
    }

    void erase(const Entry* entry) {
      if (long_) [[unlikely]]
        return erase_from_chunks(*entry);
      short_.erase(short_.begin() + (entry - short_.data()));
    }

    void append_to(std::vector<BlockId>& blocks) const;

   private:
    static constexpr std::size_t longest_array = 128;

    void insert_in_chunks(const Entry& entry);
    void erase_from_chunks(Entry entry);

    std::vector<Entry> short_;
    std::unique_ptr<SortedChunks<Entry, LastEntry>> long_;  // when it exists it holds all
  };

  /// The bins of one doubling. Row 0 holds the sizes below 32 units.
  struct Row {
    std::uint32_t occupied = 0;
    std::array<Bin, columns> bins;
  };

  struct Slot {
    unsigned row = 0, column = 0;
    std::uint32_t offset = 0;
  };

  template <class Word>
  static unsigned lowest_bit(Word word) {
    return static_cast<unsigned>(std::countr_zero(word));
  }

  Slot slot_of(Bytes size) const {
    const std::uint64_t units = size.count >> unit_log2_;
    if (units < columns) return {0, static_cast<unsigned>(units), 0};
    const unsigned shift = static_cast<unsigned>(std::bit_width(units)) - 1 - columns_log2;
    const std::uint64_t mantissa = units >> shift;  // 32 .. 63
    return {shift + 1, static_cast<unsigned>(mantissa) - columns,
            static_cast<std::uint32_t>(units - (mantissa << shift))};
  }

  Found front_of(unsigned row, unsigned column) const {
    Found found;
    found.entry_ = &rows_[row]->bins[column].first();
    found.row_ = row;
    found.column_ = column;
    return found;
  }

  void vacate(unsigned row, unsigned column) {
    rows_[row]->occupied &= ~(1U << column);
    if (rows_[row]->occupied == 0) occupied_rows_ &= ~(std::uint64_t{1} << row);
  }

  unsigned unit_log2_;
  std::uint64_t occupied_rows_ = 0;
  std::array<std::unique_ptr<Row>, row_count> rows_;
};

}  // namespace memreel
