// A sorted sequence for any number of entries: an array cut into chunks, with a directory of what is in each.
//
// Insertion and removal move at most one chunk's entries and search one contiguous directory, so a sequence of 65,536
// costs little more than one of 4,096. Nodes of a balanced tree would each be a cache miss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace memreel {

/// `Entry` is ordered by `<`, no two entries being equal. `Summary` is what the directory knows of a chunk:
/// - `static Summary of(std::span<const Entry>)` makes it, the span not being empty;
/// - `last` is the chunk's last entry;
/// - `add(entry)` brings it up to date when an entry is added;
/// - `depends_on(entry)` tells whether it must be made anew when an entry is removed.
template <class Entry, class Summary>
class SortedChunks {
 public:
  static constexpr std::size_t chunk_capacity = 64;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  std::span<const Summary> directory() const { return directory_; }
  std::span<const Entry> chunk(std::size_t i) const { return chunks_[i]; }

  // Searches are std's, with a branch for every comparison: the processor runs ahead on its guesses, and a search
  // without branches, a chain of loads that wait for each other, took twice as long.

  /// The first chunk that may hold an entry not before `entry`; the number of chunks when there is none.
  std::size_t chunk_of(const Entry& entry) const {
    const auto found = std::partition_point(directory_.begin(), directory_.end(),
                                            [&](const Summary& summary) { return summary.last < entry; });
    return static_cast<std::size_t>(found - directory_.begin());
  }

  /// Where in a chunk the first entry is that is not before `entry`; the chunk's size when there is none.
  static std::size_t position_of(std::span<const Entry> chunk, const Entry& entry) {
    return static_cast<std::size_t>(std::lower_bound(chunk.begin(), chunk.end(), entry) - chunk.begin());
  }

  /// The first entry not before `entry`, or null.
  const Entry* lower_bound(const Entry& entry) const {
    const std::size_t i = chunk_of(entry);
    return i == chunks_.size() ? nullptr : &chunks_[i][position_of(chunks_[i], entry)];
  }

  void insert(const Entry& entry) {
    ++size_;
    if (chunks_.empty()) {
      chunks_.push_back({entry});
      directory_.push_back(Summary::of(chunks_[0]));
      return;
    }
    std::size_t i = std::min(chunk_of(entry), chunks_.size() - 1);
    if (chunks_[i].size() == chunk_capacity) {
      cut(i);
      if (directory_[i].last < entry) ++i;
    }
    Chunk& chunk = chunks_[i];
    chunk.insert(chunk.begin() + distance(position_of(chunk, entry)), entry);
    directory_[i].add(entry);
  }

  /// Replaces an entry, which must be present, by one that belongs between the same neighbours.
  void replace(const Entry& entry, const Entry& by) {
    const std::size_t i = chunk_of(entry);
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
    // The first entry of all is what best fit takes from blocks of one size: it needs no search.
    const bool is_first = !(chunks_[0].front() < entry);
    const std::size_t i = is_first ? 0 : chunk_of(entry);
    Chunk& chunk = chunks_[i];
    chunk.erase(chunk.begin() + (is_first ? 0 : distance(position_of(chunk, entry))));
    if (chunk.empty()) return drop(i);
    if (directory_[i].depends_on(entry)) directory_[i] = Summary::of(chunk);
    if (chunk.size() < chunk_capacity / 4) join_with_neighbour(i);
  }

 private:
  using Chunk = std::vector<Entry>;

  static std::ptrdiff_t distance(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

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
    chunks_.erase(chunks_.begin() + distance(i));
    directory_.erase(directory_.begin() + distance(i));
  }

  /// Keeps chunks from staying nearly empty, unless the neighbour is too full.
  void join_with_neighbour(std::size_t i) {
    if (chunks_.size() < 2) return;
    const std::size_t first = i + 1 < chunks_.size() ? i : i - 1;
    Chunk& left = chunks_[first];
    const Chunk& right = chunks_[first + 1];
    if (left.size() + right.size() > chunk_capacity * 3 / 4) return;
    left.insert(left.end(), right.begin(), right.end());
    directory_[first] = Summary::of(left);
    drop(first + 1);
  }

  std::vector<Chunk> chunks_;  // none is empty; all of one precede all of the next
  std::vector<Summary> directory_;
  std::size_t size_ = 0;
};

}  // namespace memreel
