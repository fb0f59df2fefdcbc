// SPDX-License-Identifier: Apache-2.0
// Free blocks ordered by address, searchable by size: the first one at or after an address that is large enough.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/heap/block_table.h"
#include "analyzer/heap/sorted_chunks.h"
#include "formats/model/units.h"

namespace memreel {

/// Searches the largest size of each chunk of blocks, one contiguous array, and then one chunk.
class AddressIndex {
 public:
  void insert(Address address, Bytes size, BlockId block) {
    blocks_.insert({address, size, block});
    count_in(size);
  }

  /// The block must be present.
  void erase(Address address, Bytes size) {
    blocks_.erase({address, size, BlockId::none});
    count_out(size);
  }

  /// Replaces a present block by one of another address and size that has the same neighbours.
  void replace(Address address, Bytes size, Address new_address, Bytes new_size, BlockId block) {
    blocks_.replace({address, size, BlockId::none}, {new_address, new_size, block});
    count_in(new_size);
    count_out(size);
  }

  /// The block with the lowest address at or after `from` that has at least `size` bytes, or none.
  BlockId find(Address from, Bytes size) const {
    const Entry start{from, {}, BlockId::none};
    const auto directory = blocks_.directory();
    const std::size_t first = blocks_.chunk_of(start);
    for (std::size_t i = first; i < directory.size(); ++i) {
      if (directory[i].largest < size) continue;
      const auto chunk = blocks_.chunk(i);
      auto entry = chunk.begin();
      if (i == first) entry += static_cast<std::ptrdiff_t>(decltype(blocks_)::position_of(chunk, start));
      entry = std::find_if(entry, chunk.end(), [&](const Entry& e) { return e.size >= size; });
      if (entry != chunk.end()) return entry->block;
    }
    return BlockId::none;
  }

  /// The size of the largest block, 0 if there is none.
  Bytes largest() const { return largest_; }

 private:
  struct Entry {
    Address address;
    Bytes size;
    BlockId block = BlockId::none;

    friend bool operator<(const Entry& a, const Entry& b) { return a.address < b.address; }
  };

  struct Chunk {
    Entry last;
    Bytes largest;

    static Chunk of(std::span<const Entry> entries) {
      Chunk chunk{.last = entries.back()};
      for (const Entry& entry : entries) chunk.largest = std::max(chunk.largest, entry.size);
      return chunk;
    }
    void add(const Entry& entry) {
      last = std::max(last, entry);
      largest = std::max(largest, entry.size);
    }
    bool depends_on(const Entry& entry) const { return entry.size == largest || !(entry < last); }
  };

  void count_in(Bytes size) {
    if (size > largest_) {
      largest_ = size;
      as_large_ = 0;
    }
    if (size == largest_) ++as_large_;
  }
  void count_out(Bytes size) {
    if (size == largest_ && --as_large_ == 0) find_largest();
  }

  void find_largest() {
    largest_ = {};
    for (const Chunk& chunk : blocks_.directory()) largest_ = std::max(largest_, chunk.largest);
    for (std::size_t i = 0; i < blocks_.directory().size(); ++i)
      if (blocks_.directory()[i].largest == largest_)
        as_large_ += static_cast<std::size_t>(
            std::ranges::count(blocks_.chunk(i), largest_, [](const Entry& entry) { return entry.size; }));
  }

  SortedChunks<Entry, Chunk> blocks_;
  Bytes largest_;
  std::size_t as_large_ = 0;  // number of blocks of that size
};

}  // namespace memreel
