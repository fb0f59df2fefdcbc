// SPDX-License-Identifier: Apache-2.0
// Free blocks ordered by address, searchable by size: the first one at or after an address that is large enough; and
// the sorted sequence of any length that they are kept in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/replay/heap/block_table.h"
#include "formats/model/units.h"

namespace memreel {

// A sorted sequence of any length: an array cut into chunks, with a directory that summarizes each.
//
// Insertion and removal move at most one chunk's entries and search one contiguous directory, so a sequence of 65,536
// costs little more than one of 4,096. With a balanced tree, each node would be a cache miss.

/// `Entry` is ordered by `<`, and no two entries are equal. `Summary` describes a chunk in the directory:
/// - `static Summary of(std::span<const Entry>)` creates it from a nonempty span;
/// - `last` is the chunk's last entry;
/// - `add(entry)` updates it when an entry is added;
/// - `depends_on(entry)` tells whether it must be recreated when an entry is removed.
template <class Entry, class Summary>
class SortedChunks {
 public:
  static constexpr std::size_t chunk_capacity = 64;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  std::span<const Summary> directory() const { return std::span(directory_).subspan(gone_); }
  std::span<const Entry> chunk(std::size_t i) const { return chunks_[gone_ + i]; }

  // Searches use std algorithms, with a branch per comparison: the processor speculates ahead, and a branchless search,
  // a chain of dependent loads, took twice as long.

  /// The first chunk that may hold an entry not before `entry`; the number of chunks if there is none.
  std::size_t chunk_of(const Entry& entry) const {
    const auto found = std::ranges::partition_point(directory(), [&](const Summary& s) { return s.last < entry; });
    return static_cast<std::size_t>(found - directory().begin());
  }

  /// The position in a chunk of the first entry not before `entry`; the chunk's size if there is none.
  static std::size_t position_of(std::span<const Entry> chunk, const Entry& entry) {
    return static_cast<std::size_t>(std::lower_bound(chunk.begin(), chunk.end(), entry) - chunk.begin());
  }

  /// The first entry not before `entry`, or null.
  const Entry* lower_bound(const Entry& entry) const {
    const std::size_t i = chunk_of(entry);
    return i == directory().size() ? nullptr : &chunk(i)[position_of(chunk(i), entry)];
  }

  void insert(const Entry& entry) {
    const bool at_end = empty() || directory_.back().last < entry;
    ++size_;
    if (at_end) return append(entry);
    std::size_t i = gone_ + chunk_of(entry);
    if (chunks_[i].size() == chunk_capacity) {
      cut(i);
      if (directory_[i].last < entry) ++i;
    }
    Chunk& chunk = chunks_[i];
    chunk.insert(chunk.begin() + distance(position_of(chunk, entry)), entry);
    directory_[i].add(entry);
  }

  /// Replaces a present entry by one that belongs between the same neighbours.
  void replace(const Entry& entry, const Entry& by) {
    const std::size_t i = gone_ + chunk_of(entry);
    Chunk& chunk = chunks_[i];
    chunk[position_of(chunk, entry)] = by;
    if (directory_[i].depends_on(entry))
      directory_[i] = Summary::of(chunk);
    else
      directory_[i].add(by);
  }

  /// `entry` must be present.
  void erase(const Entry& entry) {
    --size_;
    // Best fit takes the very first entry among blocks of one size: it needs no search.
    const bool is_first = !(chunks_[gone_].front() < entry);
    const std::size_t i = is_first ? gone_ : gone_ + chunk_of(entry);
    Chunk& chunk = chunks_[i];
    chunk.erase(chunk.begin() + (is_first ? 0 : distance(position_of(chunk, entry))));
    if (chunk.empty()) return drop(i);
    if (directory_[i].depends_on(entry)) directory_[i] = Summary::of(chunk);
    // A chunk emptied from the front disappears on its own.
    if (!is_first && chunk.size() < chunk_capacity / 4) join_with_neighbour(i);
  }

 private:
  using Chunk = std::vector<Entry>;

  static std::ptrdiff_t distance(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  /// Does not split the last chunk to make room at the end: if entries are only appended, all chunks stay full.
  void append(const Entry& entry) {
    if (chunks_.empty() || chunks_.back().size() == chunk_capacity) {
      chunks_.emplace_back().reserve(chunk_capacity);
      chunks_.back().push_back(entry);
      directory_.push_back(Summary::of(chunks_.back()));
    } else {
      chunks_.back().push_back(entry);
      directory_.back().add(entry);
    }
  }

  void cut(std::size_t i) {
    Chunk tail;
    tail.reserve(chunk_capacity);
    const auto middle = chunks_[i].begin() + chunk_capacity / 2;
    tail.assign(middle, chunks_[i].end());
    chunks_[i].erase(middle, chunks_[i].end());
    directory_[i] = Summary::of(chunks_[i]);
    directory_.insert(directory_.begin() + distance(i + 1), Summary::of(tail));
    chunks_.insert(chunks_.begin() + distance(i + 1), std::move(tail));
  }

  void drop(std::size_t i) {
    if (i == gone_ && ++gone_ <= chunks_.size() / 2) {
      chunks_[i] = Chunk();
      return;
    }
    // The first chunk, once more chunks are gone than left; or any other.
    const std::size_t first = i < gone_ ? 0 : i;
    chunks_.erase(chunks_.begin() + distance(first), chunks_.begin() + distance(i + 1));
    directory_.erase(directory_.begin() + distance(first), directory_.begin() + distance(i + 1));
    if (first == 0) gone_ = 0;
  }

  /// Keeps chunks from staying nearly empty, unless the neighbour is too full.
  void join_with_neighbour(std::size_t i) {
    if (chunks_.size() - gone_ < 2) return;
    const std::size_t first = i + 1 < chunks_.size() ? i : i - 1;
    Chunk& left = chunks_[first];
    const Chunk& right = chunks_[first + 1];
    if (left.size() + right.size() > chunk_capacity * 3 / 4) return;
    left.insert(left.end(), right.begin(), right.end());
    directory_[first] = Summary::of(left);
    drop(first + 1);
  }

  std::vector<Chunk> chunks_;  // in order; only the gone ones are empty
  std::vector<Summary> directory_;
  std::size_t gone_ = 0;  // removed chunks at the front: a sequence used as a queue loses them one after the other
  std::size_t size_ = 0;
};

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
  Bytes largest() const {
    if (as_large_ == 0) find_largest();
    return largest_;
  }

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
    if (size == largest_) --as_large_;
  }

  void find_largest() const {
    largest_ = {};
    for (const Chunk& chunk : blocks_.directory()) largest_ = std::max(largest_, chunk.largest);
    for (std::size_t i = 0; i < blocks_.directory().size(); ++i)
      if (blocks_.directory()[i].largest == largest_)
        as_large_ += static_cast<std::size_t>(
            std::ranges::count(blocks_.chunk(i), largest_, [](const Entry& entry) { return entry.size; }));
  }

  SortedChunks<Entry, Chunk> blocks_;
  // Found only when asked for: who never asks doesn't pay for it.
  mutable Bytes largest_;             // no block is larger
  mutable std::size_t as_large_ = 0;  // number of blocks of that size
};

}  // namespace memreel
