// Free blocks ordered by (size, tie): exact best fit, of several blocks of one size the one at the lowest address, or
// the one that has been free longest.
//
// The choice is that of the std::set or multimap that real allocators keep, found another way. Sizes fall into bins: 64
// for every doubling, so up to 64 units each size has a bin of its own and beyond that a bin spans 1.5 % of its size.
// Bitmaps tell which bins hold anything. Most hold a few blocks, which lie in no order: adding one appends it, removing
// one moves the last into its place, and only a search, which looks at one bin or two, compares. What is left are few
// instructions and fewer branches that depend on the data. Bins that hold many (a heap with thousands of holes of one
// size) are sorted.
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

/// Of blocks of one size the one at the lowest address comes first.
struct LowestFirst {
  std::uint64_t operator()(const BlockTable& table, BlockId id) const { return table[id].address.value; }
};

/// Since when blocks are where they are: numbers that only grow.
class BlockAges {
 public:
  /// From now on the block is the youngest of all.
  void renew(BlockId id) {
    if (index(id) >= since_.size()) [[unlikely]]
      since_.resize(index(id) + index(id) / 2 + 1);
    since_[index(id)] = ++now_;
  }

  /// The lower, the older. The block must have been renewed once.
  std::uint64_t since(BlockId id) const { return since_[index(id)]; }

 private:
  std::vector<std::uint64_t> since_;
  std::uint64_t now_ = 0;
};

/// The oldest one, whose ages must outlive the index: what a multimap keyed by size does, in which a block is added
/// behind its equals.
class OldestFirst {
 public:
  explicit OldestFirst(const BlockAges& ages) : ages_(&ages) {}
  std::uint64_t operator()(const BlockTable&, BlockId id) const { return ages_->since(id); }

 private:
  const BlockAges* ages_;
};

/// `Tie` gives each block a number, different for blocks of one size, of which the lowest comes first.
template <class Tie>
class FitIndex {
 public:
  /// Of blocks in `table`, which must outlive the index. Sizes are multiples of 2^`unit_log2` bytes; unit_log2 >= 8. A
  /// block can be in one index at a time.
  FitIndex(BlockTable& table, unsigned unit_log2, Tie tie = Tie()) : table_(&table), tie_(tie), unit_log2_(unit_log2) {
    assert(unit_log2 >= 8);
  }

  /// No block may be larger: 32 TiB.
  static constexpr Bytes max_size{std::uint64_t{1} << 45U};

  /// The block's size, and what decides ties, must stay as they are until it is erased.
  void insert(BlockId id) {
    Block& block = (*table_)[id];
    const Slot slot = slot_of(block.size);
    if (!rows_[slot.row]) [[unlikely]]
      rows_[slot.row] = std::make_unique<Row>();
    Row& row = *rows_[slot.row];
    Bin& bin = row.bins[slot.column];
    const Entry entry{tie_(*table_, id), slot.offset, id};
    if (bin.many || bin.count == most_few) [[unlikely]] {
      insert_in_many(bin, entry);
    } else {
      block.place = static_cast<std::uint8_t>(bin.count);
      bin.few[bin.count++] = entry;
    }
    row.occupied |= std::uint64_t{1} << slot.column;
    occupied_rows_ |= std::uint64_t{1} << slot.row;
    largest_ = std::max(largest_, block.size);
  }

  /// The block must have been inserted.
  void erase(BlockId id) {
    const Block& block = (*table_)[id];
    const Slot slot = slot_of(block.size);
    Row& row = *rows_[slot.row];
    Bin& bin = row.bins[slot.column];
    if (bin.many) [[unlikely]] {
      erase_from_many(bin, slot.offset, id);
    } else {
      const Entry& last = bin.few[--bin.count];
      (*table_)[last.block].place = block.place;
      bin.few[block.place] = last;
    }
    const auto bin_is_empty = static_cast<std::uint64_t>(bin.count == 0);
    row.occupied &= ~(bin_is_empty << slot.column);
    const auto row_is_empty = static_cast<std::uint64_t>(row.occupied == 0);
    occupied_rows_ &= ~(row_is_empty << slot.row);
    if (block.size == largest_) [[unlikely]]
      largest_ = find_largest();
  }

  /// The smallest block of at least `size` bytes, of several the first by their tie; none when there is none.
  BlockId find(Bytes size) const {
    if (size > largest_) return BlockId::none;
    const Slot slot = slot_of(size);
    std::uint64_t rows = occupied_rows_ >> slot.row;
    if ((rows & 1U) != 0) {
      const Row& row = *rows_[slot.row];
      const std::uint64_t bins = row.occupied >> slot.column;
      if ((bins & 1U) != 0) {
        const BlockId block = first_in(row.bins[slot.column], slot.offset);
        if (block != BlockId::none) return block;
      }
      if (bins > 1) return first_in(row.bins[slot.column + 1 + lowest_bit(bins >> 1U)], 0);
    }
    rows >>= 1U;
    if (rows == 0) return BlockId::none;
    const Row& row = *rows_[slot.row + 1 + lowest_bit(rows)];
    return first_in(row.bins[lowest_bit(row.occupied)], 0);
  }

  /// The one that follows a block of the index in order, or none.
  BlockId after(BlockId id) const;

  bool empty() const { return occupied_rows_ == 0; }

  /// The size of the largest block, 0 when there is none.
  Bytes largest() const { return largest_; }

  /// Every block, in order.
  std::vector<BlockId> ordered() const;

  /// Calls `visit` with every block of at least `size` bytes, in any order. The index must not be changed meanwhile.
  void for_each(Bytes size, auto&& visit) const {
    for_each_bin(size, [&](const Bin& bin) {
      const auto see = [&](std::span<const Entry> entries) {
        for (const Entry& entry : entries)
          if ((*table_)[entry.block].size >= size) visit(entry.block);  // not all that share a bin with it are
      };
      if (!bin.many) return see(std::span(bin.few).first(bin.count));
      for (std::size_t i = 0; i < bin.many->directory().size(); ++i) see(bin.many->chunk(i));
    });
  }

 private:
  static constexpr unsigned columns_log2 = 6;
  static constexpr unsigned columns = 1U << columns_log2;
  static constexpr unsigned row_count = 45 - 8 - columns_log2 + 2;  // up to max_size in units of 256 bytes
  static constexpr std::uint32_t most_few = 15;                     // four cache lines, of which most bins use one
  static constexpr std::size_t blocks_ahead = 8;                    // that will be looked at soon

  struct Entry {
    std::uint64_t tie = 0;
    std::uint32_t offset = 0;  // its size in units, less the smallest size of its bin: below 2^31 given max_size
    BlockId block = BlockId::none;

    friend bool operator<(const Entry& a, const Entry& b) {
      // Not by && and ||: these would be branches.
      const auto smaller = static_cast<unsigned>(a.offset < b.offset),
                 same = static_cast<unsigned>(a.offset == b.offset);
      return (smaller | (same & static_cast<unsigned>(a.tie < b.tie))) != 0;
    }
  };

  static const Entry beyond_all;  // no block

  struct LastEntry {
    Entry last;
    static LastEntry of(std::span<const Entry> entries) { return {entries.back()}; }
    void add(const Entry& entry) { last = std::max(last, entry); }
    bool depends_on(const Entry& entry) const { return !(entry < last); }
  };
  using Many = SortedChunks<Entry, LastEntry>;

  /// Blocks of nearly one size.
  struct alignas(64) Bin {
    std::uint32_t count = 0;
    std::unique_ptr<Many> many;  // when it exists it holds all
    std::array<Entry, most_few> few;
  };

  /// The bins of one doubling. Row 0 holds the sizes below `columns` units.
  struct Row {
    std::uint64_t occupied = 0;
    std::array<Bin, columns> bins;
  };

  struct Slot {
    unsigned row = 0, column = 0;
    std::uint32_t offset = 0;
  };

  static unsigned lowest_bit(std::uint64_t word) { return static_cast<unsigned>(std::countr_zero(word)); }
  static unsigned highest_bit(std::uint64_t word) { return static_cast<unsigned>(std::bit_width(word)) - 1; }

  Slot slot_of(Bytes size) const {
    const std::uint64_t units = size.count >> unit_log2_;
    const unsigned row = static_cast<unsigned>(std::bit_width(units | (columns - 1))) - columns_log2;
    const unsigned shift = row - static_cast<unsigned>(row != 0);
    return {row, static_cast<unsigned>(units >> shift) % columns,
            static_cast<std::uint32_t>(units & ((std::uint64_t{1} << shift) - 1))};
  }

  /// The other way round.
  Bytes size_of(const Slot& slot) const {
    const unsigned shift = slot.row - static_cast<unsigned>(slot.row != 0);
    const std::uint64_t leading = std::uint64_t{slot.row != 0} << columns_log2;
    return Bytes{(((leading | slot.column) << shift) + slot.offset) << unit_log2_};
  }

  /// The first block of a bin whose offset is at least `offset`, or none.
  BlockId first_in(const Bin& bin, std::uint32_t offset) const {
    if (bin.many) [[unlikely]]
      return first_in_many(bin, offset);
    const Entry* first = &beyond_all;
    for (std::uint32_t i = 0; i < bin.count; ++i) {
      const Entry& entry = bin.few[i];
      const bool better = (static_cast<unsigned>(entry.offset >= offset) & static_cast<unsigned>(entry < *first)) != 0;
      first = better ? &entry : first;
    }
    return first->block;
  }

  /// Those bins that hold anything, from that of blocks of `size` bytes on.
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

  BlockId first_in_many(const Bin& bin, std::uint32_t offset) const;
  static void insert_in_many(Bin& bin, const Entry& entry);
  void erase_from_many(Bin& bin, std::uint32_t offset, BlockId id);
  Bytes find_largest() const;

  BlockTable* table_;
  [[no_unique_address]] Tie tie_;
  unsigned unit_log2_;
  std::uint64_t occupied_rows_ = 0;
  Bytes largest_;
  std::array<std::unique_ptr<Row>, row_count> rows_;
};

template <class Tie>
inline constexpr typename FitIndex<Tie>::Entry FitIndex<Tie>::beyond_all{~std::uint64_t{0}, ~std::uint32_t{0}};

using BestFitIndex = FitIndex<LowestFirst>;
using OldestFitIndex = FitIndex<OldestFirst>;

}  // namespace memreel
