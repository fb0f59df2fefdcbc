// SPDX-License-Identifier: Apache-2.0
// A sorted sequence of any length: an array cut into chunks, with a directory that summarizes each.
//
// Insertion and removal move at most one chunk's entries and search one contiguous directory, so a sequence of 65,536
// costs little more than one of 4,096. With a balanced tree, each node would be a cache miss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace memreel {

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

}  // namespace memreel
