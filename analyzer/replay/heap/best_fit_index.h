// SPDX-License-Identifier: Apache-2.0
// Free blocks ordered by (size, tie): exact best fit; among blocks of equal size, the one at the lowest address, or the
// one that has been free longest.
//
// The result is that of the std::set or multimap used by real allocators, found in another way. Sizes fall into bins:
// 64 for every doubling, so up to 64 units each size has its own bin, and beyond that a bin spans 1.5 % of its size.
// Bitmaps tell which bins are nonempty. Most hold a few unordered blocks: adding one fills a gap, removing one leaves a
// gap, and only a search, which visits one or two bins, compares. This takes few instructions and fewer data-dependent
// branches. If many blocks of one size are free, as often of the smallest sizes, their ties play a tournament; bins
// with many blocks of several sizes, or thousands of blocks, are sorted. The first few blocks need no bins, which take
// 16 KiB a doubling: a heap may have a hundred thousand indexes of one block each.
//
// Within a bin, blocks are ordered by one 64-bit number: how much larger than the bin's smallest size a block is, then
// its tie. The first block at or after a wanted number is the one with the least distance from it, as an unsigned
// difference: what precedes it wraps around and is far away, and so is a gap, whose number is the highest. So a search
// only computes the least of a few distances.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "analyzer/replay/heap/address_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/heap/maxima.h"
#include "formats/model/units.h"

namespace memreel {

/// Among blocks of equal size, the one at the lowest address comes first. Blocks have at least 256 bytes, so that the
/// numbers differ.
struct LowestFirst {
  std::uint64_t operator()(const BlockTable& table, BlockId id) const { return table[id].address.value >> 8U; }
};

/// When each block was last renewed: numbers that only grow.
class BlockAges {
 public:
  /// Makes the block the youngest of all.
  void renew(BlockId id) {
    if (index(id) >= since_.size()) [[unlikely]]
      since_.resize(index(id) + index(id) / 2 + 1);
    since_[index(id)] = ++now_;
  }

  /// Gives a block the age of another.
  void inherit(BlockId id, BlockId from) {
    if (index(id) >= since_.size()) [[unlikely]]
      since_.resize(index(id) + index(id) / 2 + 1);
    since_[index(id)] = since_[index(from)];
  }

  /// The lower, the older. The block must have been renewed at least once.
  std::uint64_t since(BlockId id) const { return since_[index(id)]; }

 private:
  std::vector<std::uint64_t> since_;
  std::uint64_t now_ = 0;
};

/// The oldest block; `ages` must outlive the index. Matches a multimap keyed by size, which inserts a block after its
/// equals.
class OldestFirst {
 public:
  explicit OldestFirst(const BlockAges& ages) : ages_(&ages) {}
  std::uint64_t operator()(const BlockTable&, BlockId id) const { return ages_->since(id); }

 private:
  const BlockAges* ages_;
};

/// `Tie` gives each block a number, distinct among blocks of equal size; the lowest comes first.
template <class Tie>
class FitIndex {
  struct Bin;

 public:
  /// The result of a search, with its position.
  class Found {
   public:
    BlockId block = BlockId::none;

    Found() = default;
    explicit operator bool() const { return block != BlockId::none; }

   private:
    friend FitIndex;
    Found(BlockId id, const Bin& bin, unsigned place) : block(id), place_(place), bin_(&bin) {}
    explicit Found(BlockId id) : block(id) {}  // among the first
    unsigned place_ = 0;
    const Bin* bin_ = nullptr;
  };

  /// For blocks in `table`, which must outlive the index. Sizes are multiples of 2^`unit_log2` bytes. A block can be in
  /// one index at a time.
  FitIndex(BlockTable& table, unsigned unit_log2, Tie tie = Tie()) : table_(&table), tie_(tie), unit_log2_(unit_log2) {}

  /// No block may be larger: 32 TiB. With units below 256 bytes, no search finds one of 2^(38 + unit_log2) bytes.
  static constexpr Bytes max_size{std::uint64_t{1} << 45U};

  /// The block's size and tie must not change until it is erased.
  void insert(BlockId id) {
    Block& block = (*table_)[id];
    const Slot slot = slot_of(block.size);
    Row* const row = rows_[slot.row].get();
    if (row == nullptr) [[unlikely]]
      return insert_in_new_row(id);
    Bin& bin = row->bins[slot.column];
    const std::uint64_t tie = tie_(*table_, id);
    const auto place = static_cast<unsigned>(std::countr_one(bin.used));
    if (place == most_few || !has_key(slot.offset, tie)) [[unlikely]]
      return insert_in_many(id);
    bin.few[place] = {key_of(slot.offset, tie), id};
    bin.used |= 1U << place;
    block.place = static_cast<std::uint16_t>(place);
    note(slot, *row, block.size);
  }

  /// The block must have been inserted.
  void erase(BlockId id) {
    const Block& block = (*table_)[id];
    const Slot slot = slot_of(block.size);
    Row* const row = rows_[slot.row].get();
    if (row == nullptr) [[unlikely]]
      return erase_first(id);
    erase_from(row->bins[slot.column], block.place, id, slot);
  }

  /// Erases the result of a search. The index must not have changed since. Faster than by id: needs no lookup.
  [[gnu::always_inline]] void erase(const Found& found) {
    if (found.bin_ == nullptr) [[unlikely]]
      return erase_first(found.block);
    const Slot slot{found.bin_->row, found.bin_->column, 0};
    erase_from(rows_[slot.row]->bins[slot.column], found.place_, found.block, slot);
  }

  /// The smallest block of at least `size` bytes, ties going to the first by tie; none if there is none.
  [[gnu::always_inline]] Found search(Bytes size) const {
    if (size > largest_) return {};
    const Slot slot = slot_of(size);
    std::uint64_t rows = occupied_rows_ >> slot.row;
    if ((rows & 1U) != 0) {
      const Row& row = *rows_[slot.row];
      if (const Found found = first_in(row.bins[slot.column], slot.offset)) return found;
      const std::uint64_t larger = row.occupied >> slot.column >> 1U;
      if (larger != 0) return first_in(row.bins[slot.column + 1 + lowest_bit(larger)], 0);
    }
    rows >>= 1U;
    if (rows == 0) [[unlikely]]
      return search_first(size);
    const Row& row = *rows_[slot.row + 1 + lowest_bit(rows)];
    return first_in(row.bins[lowest_bit(row.occupied)], 0);
  }

  BlockId find(Bytes size) const { return search(size).block; }

  /// As if found by a search. The block must have been inserted.
  Found place_of(BlockId id) const {
    const Slot slot = slot_of((*table_)[id].size);
    if (rows_[slot.row] == nullptr) return Found(id);
    return Found(id, rows_[slot.row]->bins[slot.column], (*table_)[id].place);
  }

  /// The successor of a block of the index in order, or none.
  BlockId after(BlockId id) const;

  bool empty() const { return occupied_rows_ == 0 && first_.empty(); }

  /// The size of the largest block, 0 if there is none.
  Bytes largest() const { return largest_; }

  /// Every block, or those of about `size` bytes and more, in order.
  std::vector<BlockId> ordered(Bytes size = {}) const;

  /// Calls `visit` with every block of at least `size` bytes, in any order. The index must not be changed meanwhile.
  void for_each(Bytes size, auto&& visit) const {
    for (const First& first : first_)
      if (first.size >= size) visit(first.block);
    for_each_bin(size, [&](const Bin& bin) {
      for_each_in(bin, [&](BlockId id) {
        if ((*table_)[id].size >= size) visit(id);  // its bin may contain smaller ones
      });
    });
  }

 private:
  static constexpr unsigned columns_log2 = 6;
  static constexpr unsigned columns = 1U << columns_log2;
  static constexpr unsigned row_count = 45 - columns_log2 + 2;  // up to max_size in units of one byte
  static constexpr unsigned most_few = 15;                      // four cache lines; most bins use one
  static constexpr unsigned at_once = 3;                        // how many of them a search scans unconditionally
  static constexpr std::uint32_t all_few = (1U << most_few) - 1;
  static constexpr std::size_t most_first = 16;     // blocks without bins
  static constexpr std::size_t blocks_ahead = 8;    // number of blocks accessed soon
  static constexpr unsigned tie_bits = 42;          // enough for addresses below 2^50
  static constexpr unsigned offset_bits = 64 - 42;  // enough for blocks of 128 GiB
  static constexpr std::uint64_t most_offset = ~std::uint32_t{0};

  /// The key of an empty place.
  static constexpr std::uint64_t no_key = ~std::uint64_t{0};

  /// A block's number within its bin. `offset`: its size in units, minus the smallest size of its bin.
  static std::uint64_t key_of(std::uint64_t offset, std::uint64_t tie) { return (offset << tie_bits) + tie; }
  /// Whether the number can be represented; if not for some block, its bin is sorted.
  static bool has_key(std::uint64_t offset, std::uint64_t tie) {
    return (((tie + 1) >> tie_bits) | (offset >> offset_bits)) == 0;
  }

  struct KeyedBlock {
    std::uint64_t key = no_key;
    BlockId block = BlockId::none;
  };

  struct Entry {
    std::uint64_t tie = 0;
    std::uint32_t offset = 0;  // below 2^31 given max_size; at most `most_offset` for smaller units
    BlockId block = BlockId::none;

    friend bool operator<(const Entry& a, const Entry& b) {
      // Without && and ||, which would be branches.
      const auto smaller = static_cast<unsigned>(a.offset < b.offset),
                 same = static_cast<unsigned>(a.offset == b.offset);
      return (smaller | (same & static_cast<unsigned>(a.tie < b.tie))) != 0;
    }
  };

  /// A block of an index that has no bins yet.
  struct First {
    Bytes size;
    std::uint64_t tie = 0;
    BlockId block = BlockId::none;

    friend bool operator<(const First& a, const First& b) { return a.size != b.size ? a.size < b.size : a.tie < b.tie; }
  };

  struct LastEntry {
    Entry last;
    static LastEntry of(std::span<const Entry> entries) { return {entries.back()}; }
    void add(const Entry& entry) { last = std::max(last, entry); }
    bool depends_on(const Entry& entry) const { return !(entry < last); }
  };
  using Sorted = SortedChunks<Entry, LastEntry>;

  /// Blocks of one size.
  struct Equals {
    Tournament ties;
    std::array<BlockId, Tournament::capacity> blocks;  // by place
  };

  /// More than a few blocks, in one of two forms.
  struct Many {
    std::unique_ptr<Equals> equals;  // if set, it holds all of them
    Sorted sorted;

    std::size_t size() const { return equals ? equals->ties.size() : sorted.size(); }
    void for_each(auto&& visit) const {
      if (equals) equals->ties.for_each([&](unsigned place, std::uint64_t) { visit(equals->blocks[place]); });
      for (std::size_t i = 0; i < sorted.directory().size(); ++i)
        for (const Entry& entry : sorted.chunk(i)) visit(entry.block);
    }
  };

  /// Blocks of nearly one size.
  struct alignas(64) Bin {
    std::uint32_t used = 0;            // bit set of used places of `few`; all of them if there are many
    std::uint8_t row = 0, column = 0;  // its own
    std::unique_ptr<Many> many;        // if set, it holds all of them
    std::array<KeyedBlock, most_few> few;
  };
  static_assert(sizeof(Bin) == 256);

  /// The bins of one doubling. Row 0 holds the sizes below `columns` units. In rows 0 and 1 a bin has a single size.
  struct Row {
    explicit Row(unsigned number) {
      for (unsigned column = 0; column < columns; ++column) {
        bins[column].row = static_cast<std::uint8_t>(number);
        bins[column].column = static_cast<std::uint8_t>(column);
      }
    }

    std::uint64_t occupied = 0;
    std::array<Bin, columns> bins;
  };

  struct Slot {
    unsigned row = 0, column = 0;
    std::uint64_t offset = 0;
  };

  static unsigned lowest_bit(std::uint64_t word) { return static_cast<unsigned>(std::countr_zero(word)); }
  /// `word` must not be 0. Not bit_width(), which costs two more instructions with GCC.
  static unsigned highest_bit(std::uint64_t word) { return static_cast<unsigned>(std::countl_zero(word)) ^ 63U; }

  Slot slot_of(Bytes size) const {
    const std::uint64_t units = size.count >> unit_log2_;
    const unsigned shift = highest_bit(units | (2 * columns - 1)) - columns_log2;
    const unsigned bin = static_cast<unsigned>(units >> shift) + shift * columns;
    return {bin / columns, bin % columns, units & ((std::uint64_t{1} << shift) - 1)};
  }

  static bool has_one_size(const Bin& bin) { return bin.row <= 1; }

  Entry entry_of(BlockId id) const {
    return {tie_(*table_, id), static_cast<std::uint32_t>(std::min(slot_of((*table_)[id].size).offset, most_offset)),
            id};
  }

  [[gnu::always_inline]] void note(const Slot& slot, Row& row, Bytes size) {
    row.occupied |= std::uint64_t{1} << slot.column;
    occupied_rows_ |= std::uint64_t{1} << slot.row;
    largest_ = std::max(largest_, size);
  }

  [[gnu::always_inline]] void erase_from(Bin& bin, unsigned place, BlockId id, const Slot& slot) {
    if (bin.many) [[unlikely]] {
      erase_from_many(bin, id);
    } else {
      bin.few[place].key = no_key;
      bin.used &= ~(1U << place);
    }
    Row& row = *rows_[slot.row];
    const auto bin_is_empty = static_cast<std::uint64_t>(bin.used == 0);
    row.occupied &= ~(bin_is_empty << slot.column);
    const auto row_is_empty = static_cast<std::uint64_t>(row.occupied == 0);
    occupied_rows_ &= ~(row_is_empty << slot.row);
    if ((*table_)[id].size == largest_) [[unlikely]]
      largest_ = find_largest();
  }

  /// The first block of a bin whose offset is at least `offset`.
  [[gnu::always_inline]] Found first_in(const Bin& bin, std::uint64_t offset) const {
    if (bin.many) [[unlikely]]
      return first_in_many(bin, offset);
    if ((offset >> offset_bits) != 0) [[unlikely]]
      return {};
    return first_in_few(bin, key_of(offset, 0));
  }

  /// The first block of a bin whose number is at least `wanted`.
  [[gnu::always_inline]] static Found first_in_few(const Bin& bin, std::uint64_t wanted) {
    static_assert(at_once == 3);
    std::uint64_t least = bin.few[0].key - wanted;
    unsigned place = 0;
    // GCC takes three calls for too many to inline; a call each costs replays a fifth.
    const auto consider = [&](unsigned other) __attribute__((always_inline)) {
      const std::uint64_t distance = bin.few[other].key - wanted;
      const bool is_less = distance < least;
      least = is_less ? distance : least;
      place = is_less ? other : place;
    };
    consider(1);
    consider(2);
    for (unsigned i = at_once; (bin.used >> i) != 0; i += at_once) {
      consider(i);
      consider(i + 1);
      consider(i + 2);
    }
    if (least >= no_key - wanted) return {};
    return Found(bin.few[place].block, bin, place);
  }

  static void for_each_in(const Bin& bin, auto&& visit) {
    if (bin.many) {
      bin.many->for_each(visit);
    } else {
      for (std::uint32_t used = bin.used; used != 0; used &= used - 1) visit(bin.few[lowest_bit(used)].block);
    }
  }

  /// Visits nonempty bins, starting with that of blocks of `size` bytes.
  void for_each_bin(Bytes size, auto&& visit) const {
    if (size > largest_) return;
    const Slot first = slot_of(size);
    std::uint64_t columns_of_interest = ~std::uint64_t{0} << first.column;
    if (((occupied_rows_ >> first.row) & 1U) == 0) columns_of_interest = ~std::uint64_t{0};
    for (std::uint64_t rows = occupied_rows_ >> first.row << first.row; rows != 0; rows &= rows - 1) {
      const Row& row = *rows_[lowest_bit(rows)];
      for (std::uint64_t bins = row.occupied & columns_of_interest; bins != 0; bins &= bins - 1)
        visit(row.bins[lowest_bit(bins)]);
      columns_of_interest = ~std::uint64_t{0};
    }
  }

  Found first_in_many(const Bin& bin, std::uint64_t offset) const;
  Found search_first(Bytes size) const;
  void erase_first(BlockId id);
  void insert_in_new_row(BlockId id);
  void insert_in_many(BlockId id);
  void add_to(Many& many, BlockId id);
  void erase_from_many(Bin& bin, BlockId id);
  void make_few(Bin& bin);
  static BlockId after_in(const Equals& equals, std::uint64_t tie);
  Bytes find_largest() const;

  BlockTable* table_;
  [[no_unique_address]] Tie tie_;
  unsigned unit_log2_;
  std::uint64_t occupied_rows_ = 0;
  Bytes largest_;
  std::array<std::unique_ptr<Row>, row_count> rows_;
  std::vector<First> first_;  // all blocks, unordered, until they were too many once
  bool has_bins_ = false;
};

using BestFitIndex = FitIndex<LowestFirst>;
using OldestFitIndex = FitIndex<OldestFirst>;

}  // namespace memreel
