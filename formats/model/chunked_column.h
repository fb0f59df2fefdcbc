// SPDX-License-Identifier: Apache-2.0
// A growing column of small values that copies share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// Values in chunks. Rows never move once their chunk is full, and a copy shares all full chunks: it costs about as
/// much as its last one. A chunk that is shared is copied before a row of it changes.
template <class T>
class ChunkedColumn {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr unsigned chunk_bits = 16;
  static constexpr std::size_t chunk_rows = std::size_t{1} << chunk_bits;

  ChunkedColumn() = default;
  ChunkedColumn(const ChunkedColumn& other) : chunks_(other.chunks_), storage_(other.storage_), size_(other.size_) {
    if (other.room_ != 0) move_last(rows_in_last());
  }
  ChunkedColumn(ChunkedColumn&& other) noexcept = default;
  ChunkedColumn& operator=(const ChunkedColumn& other) { return *this = ChunkedColumn(other); }
  ChunkedColumn& operator=(ChunkedColumn&& other) noexcept = default;
  ~ChunkedColumn() = default;

  std::size_t size() const { return size_; }
  [[gnu::always_inline]] T operator[](std::size_t i) const { return chunks_[i >> chunk_bits][i & (chunk_rows - 1)]; }
  /// The rows from `begin` on that follow it in memory, at most to `end`. At least one, if `begin` < `end`.
  std::span<const T> run(std::size_t begin, std::size_t end) const {
    if (begin >= end) return {};
    const std::size_t row = begin & (chunk_rows - 1);
    return {chunks_[begin >> chunk_bits] + row, std::min(end - begin, chunk_rows - row)};
  }

  void push_back(T value) {
    if (room_ == 0) make_room();
    chunks_.back()[size_ & (chunk_rows - 1)] = value;
    --room_;
    ++size_;
  }
  /// The next `count` rows: `value(i)` for each i below it.
  template <class Value>
  void append(std::size_t count, Value value) {
    for (std::size_t i = 0; i < count;) {
      if (room_ == 0) make_room();
      const std::size_t end = i + std::min(room_, count - i);
      T* to = chunks_.back() + (size_ & (chunk_rows - 1));
      room_ -= end - i;
      size_ += end - i;
      for (; i < end; ++i) *to++ = value(i);
    }
  }
  void set(std::size_t i, T value) {
    const std::size_t at = i >> chunk_bits;
    if (storage_[at].use_count() > 1) move(at, at + 1 == chunks_.size() ? rows_in_last() + room_ : chunk_rows);
    chunks_[at][i & (chunk_rows - 1)] = value;
  }
  /// Gives back the room for rows that did not come.
  void shrink() {
    if (room_ == 0) return;
    move_last(rows_in_last());
    room_ = 0;
  }

  /// Of the chunks, shared or not.
  Bytes memory() const { return {(size_ + room_) * sizeof(T) + chunks_.size() * (sizeof(T*) + sizeof(Storage))}; }

  friend bool operator==(const ChunkedColumn& a, const ChunkedColumn& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t begin = 0; begin < a.size_; begin += chunk_rows)
      if (!std::ranges::equal(a.run(begin, a.size_), b.run(begin, b.size_))) return false;
    return true;
  }

 private:
  using Storage = std::shared_ptr<T[]>;  // NOLINT(modernize-avoid-c-arrays)

  std::size_t rows_in_last() const { return size_ == 0 ? 0 : (size_ - 1) % chunk_rows + 1; }
  /// The rows of a chunk to storage of its own, with room for so many.
  void move(std::size_t chunk, std::size_t rows) {
    Storage storage(new T[rows]);
    const std::span<const T> old = run(chunk << chunk_bits, size_);
    std::copy(old.begin(), old.end(), storage.get());
    chunks_[chunk] = storage.get();
    storage_[chunk] = std::move(storage);
  }
  void move_last(std::size_t rows) { move(chunks_.size() - 1, rows); }
  void make_room() {
    constexpr std::size_t smallest = 64;  // rows
    const std::size_t rows = size_ % chunk_rows;
    if (rows == 0) {
      chunks_.push_back(nullptr);
      storage_.emplace_back();
    }
    const std::size_t room = size_ >= chunk_rows ? chunk_rows : std::min(chunk_rows, std::max(smallest, 2 * rows));
    move_last(room);
    room_ = room - rows;
  }

  std::vector<T*> chunks_;
  std::vector<Storage> storage_;  // of each
  std::size_t size_ = 0;
  std::size_t room_ = 0;  // rows that the last chunk still has room for
};

}  // namespace memreel
