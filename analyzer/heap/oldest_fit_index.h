// Free blocks ordered by (size, age): exact best fit, ties to the block that has been in the index longest.
//
// That is what a multimap keyed by size does, and what CUDA's own allocators were measured to do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/heap/block_table.h"
#include "analyzer/heap/sorted_chunks.h"
#include "formats/model/units.h"

namespace memreel {

class OldestFitIndex {
 public:
  /// A block's size must stay as it is until it is erased.
  void insert(BlockId block, Bytes size) {
    const auto number = static_cast<std::size_t>(block);
    if (number >= age_of_.size()) age_of_.resize(number + 1);
    age_of_[number] = next_age_;
    entries_.insert({size, next_age_++, block});
  }

  /// The block must have been inserted.
  void erase(BlockId block, Bytes size) { entries_.erase({size, age_of_[static_cast<std::size_t>(block)], block}); }

  /// The smallest block of at least `size` bytes, of several the oldest; none when there is none.
  BlockId find(Bytes size) const {
    const Entry* found = entries_.lower_bound({size, 0, BlockId::none});
    return found ? found->block : BlockId::none;
  }

  /// The first block in the order of find() that is good enough, by a predicate on ids.
  BlockId find_if(Bytes size, auto&& good) const {
    const Entry start{size, 0, BlockId::none};
    for (std::size_t i = entries_.chunk_of(start); i < entries_.directory().size(); ++i)
      for (const Entry& entry : entries_.chunk(i))
        if (!(entry < start) && good(entry.block)) return entry.block;
    return BlockId::none;
  }

  bool empty() const { return entries_.empty(); }

  /// The size of the largest block, 0 when there is none.
  Bytes largest() const { return entries_.empty() ? Bytes{} : entries_.directory().back().last.size; }

  /// Every block, in the order of find().
  std::vector<BlockId> ordered() const {
    std::vector<BlockId> blocks;
    blocks.reserve(entries_.size());
    for (std::size_t i = 0; i < entries_.directory().size(); ++i)
      for (const Entry& entry : entries_.chunk(i)) blocks.push_back(entry.block);
    return blocks;
  }

 private:
  struct Entry {
    Bytes size;
    std::uint64_t age = 0;  // a number that only grows: the lower, the older
    BlockId block = BlockId::none;

    friend bool operator<(const Entry& a, const Entry& b) { return a.size != b.size ? a.size < b.size : a.age < b.age; }
  };

  struct LastEntry {
    Entry last;
    static LastEntry of(std::span<const Entry> entries) { return {entries.back()}; }
    void add(const Entry& entry) { last = std::max(last, entry); }
    bool depends_on(const Entry& entry) const { return !(entry < last); }
  };

  SortedChunks<Entry, LastEntry> entries_;
  std::vector<std::uint64_t> age_of_;  // by block
  std::uint64_t next_age_ = 1;
};

}  // namespace memreel
