// SPDX-License-Identifier: Apache-2.0
// A growing column of numbers that takes little memory and is read at random.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// Numbers in chunks. A chunk that is full is packed: each number as its distance from the smallest, in as many whole
/// bytes as the largest distance needs, so that reading one is a load and an addition. {1000, 1007, 1300} are the bases
/// 1000 and two bytes each: 0, 7, 300. The chunk that grows holds them as they are.
///
/// A copy shares the packed chunks, which never change while they are shared. Little-endian machines only, like all
/// that CUDA runs on.
class PackedColumn {
  struct Chunk {
    std::byte* bytes = nullptr;  // into its storage
    std::uint64_t base = 0;
    std::uint64_t mask = 0;   // of the low `width` bytes
    std::uint64_t width = 0;  // bytes of a row; 0: all rows are `base`
  };

 public:
  struct Bounds {
    std::uint64_t least = ~std::uint64_t{0}, most = 0;

    void include(std::uint64_t value) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
  };

  static constexpr unsigned chunk_bits = 16;
  static constexpr std::size_t chunk_rows = std::size_t{1} << chunk_bits;

  PackedColumn() = default;
  PackedColumn(const PackedColumn& other);
  PackedColumn(PackedColumn&& other) noexcept = default;
  PackedColumn& operator=(const PackedColumn& other) { return *this = PackedColumn(other); }
  PackedColumn& operator=(PackedColumn&& other) noexcept = default;
  ~PackedColumn() = default;

  std::size_t size() const { return size_; }
  [[gnu::always_inline]] std::uint64_t operator[](std::size_t i) const {
    const Chunk& chunk = chunks_[i >> chunk_bits];
    std::uint64_t distance = 0;
    std::memcpy(&distance, chunk.bytes + (i & (chunk_rows - 1)) * chunk.width, sizeof distance);
    return chunk.base + (distance & chunk.mask);
  }

  /// Calls `use(value)` for the rows `begin` .. `end` - 1: faster than asking for each.
  template <class Use>
  void for_each(std::size_t begin, std::size_t end, Use use) const {
    while (begin < end) {
      const Chunk chunk = chunks_[begin >> chunk_bits];
      const std::size_t row = begin & (chunk_rows - 1), rows = std::min(end - begin, chunk_rows - row);
      const std::byte* at = chunk.bytes + row * chunk.width;
      for (std::size_t i = 0; i < rows; ++i, at += chunk.width) {
        std::uint64_t distance = 0;
        std::memcpy(&distance, at, sizeof distance);
        use(chunk.base + (distance & chunk.mask));
      }
      begin += rows;
    }
  }

  /// Reads rows that are mostly of the chunk of the row before: faster than operator[]. Not while the column changes.
  class Nearby {
   public:
    explicit Nearby(const PackedColumn& column) : column_(column) {}
    [[gnu::always_inline]] std::uint64_t operator()(std::size_t i) {
      if ((i >> chunk_bits) != number_) {
        number_ = i >> chunk_bits;
        chunk_ = column_.chunks_[number_];
      }
      std::uint64_t distance = 0;
      std::memcpy(&distance, chunk_.bytes + (i & (chunk_rows - 1)) * chunk_.width, sizeof distance);
      return chunk_.base + (distance & chunk_.mask);
    }

   private:
    const PackedColumn& column_;
    std::size_t number_ = ~std::size_t{0};
    Chunk chunk_;
  };

  void push_back(std::uint64_t value) {
    if (room_ == 0) make_room();
    std::memcpy(next_, &value, sizeof value);
    next_ += sizeof value;
    --room_;
    ++size_;
    growing_.include(value);
  }
  /// The next `count` rows: `value(i)` for each i below it.
  template <class Value>
  void append(std::size_t count, Value value) {
    for (std::size_t i = 0; i < count;) {
      if (room_ == 0) make_room();
      const std::size_t end = i + std::min(room_, count - i);
      room_ -= end - i;
      size_ += end - i;
      Bounds bounds = growing_;
      for (; i < end; ++i, next_ += sizeof(std::uint64_t)) {
        const std::uint64_t row = value(i);
        std::memcpy(next_, &row, sizeof row);
        bounds.include(row);
      }
      growing_ = bounds;
    }
  }
  /// Changes a row. Slow where the chunk has no room for the value, which happens to each only a few times.
  void set(std::size_t i, std::uint64_t value);
  /// Packs the last chunk, too. Worth it once nothing follows.
  void pack();

  /// Of all numbers; 0 if there are none. They need not be reached: those of a packed chunk are what its width can
  /// hold.
  Bounds bounds() const;
  /// Of the chunks, shared or not.
  Bytes memory() const;

  friend bool operator==(const PackedColumn& a, const PackedColumn& b);

 private:
  using Storage = std::shared_ptr<std::byte[]>;  // NOLINT(modernize-avoid-c-arrays)

  struct Held {
    Chunk chunk;
    Storage storage;
  };

  template <class Use>
  void for_each_row(std::size_t chunk, Use use) const {
    for_each(chunk << chunk_bits, (chunk << chunk_bits) + rows_in(chunk), use);
  }
  std::size_t rows_in(std::size_t chunk) const { return std::min(chunk_rows, size_ - (chunk << chunk_bits)); }
  Bounds bounds_of(std::size_t chunk) const;
  /// A chunk's rows in as few bytes as numbers within `bounds` need.
  Held packed(std::size_t chunk, Bounds bounds) const;
  /// Its rows as they are, with room for `room` of them.
  Held plain(std::size_t chunk, std::size_t room) const;
  void replace(std::size_t chunk, Held by);
  void make_room();

  std::vector<Chunk> chunks_;
  std::vector<Storage> storage_;  // of each
  std::size_t size_ = 0;
  std::byte* next_ = nullptr;  // where the next row goes, in the last chunk
  std::size_t room_ = 0;       // rows that it still has room for
  Bounds growing_;             // around the rows of the last chunk
};

}  // namespace memreel
