// Columns that one thread appends to while others read a snapshot.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace memreel::viewer {

/// Rows per block of storage.
inline constexpr std::size_t block_rows = std::size_t{1} << 16U;

/// A snapshot of a column of `T`. Cheap to copy, immutable, safe to read on any thread.
template <class T>
class ColumnView {
 public:
  using Block = std::shared_ptr<T[]>;  // NOLINT(modernize-avoid-c-arrays): storage of one block

  ColumnView() = default;
  ColumnView(std::shared_ptr<const std::vector<Block>> blocks, std::size_t count)
      : blocks_(std::move(blocks)), count_(count) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const T& operator[](std::size_t i) const { return (*blocks_)[i / block_rows][i % block_rows]; }
  const T& back() const { return (*this)[count_ - 1]; }

 private:
  std::shared_ptr<const std::vector<Block>> blocks_;
  std::size_t count_ = 0;
};

/// The writer's end of a column. Rows never move, so views stay valid while it grows.
template <class T>
class Growing {
 public:
  template <class... Arguments>
  void push_back(Arguments&&... arguments) {
    if (count_ % block_rows == 0)
      blocks_.push_back(std::shared_ptr<T[]>(new T[block_rows]));  // NOLINT(modernize-avoid-c-arrays)
    (*this)[count_] = T{std::forward<Arguments>(arguments)...};
    ++count_;
  }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return blocks_[i / block_rows][i % block_rows]; }
  const T& operator[](std::size_t i) const { return blocks_[i / block_rows][i % block_rows]; }

  ColumnView<T> view() const {
    return {std::make_shared<const std::vector<typename ColumnView<T>::Block>>(blocks_.begin(), blocks_.end()), count_};
  }

 private:
  std::vector<typename ColumnView<T>::Block> blocks_;
  std::size_t count_ = 0;
};

/// An event's ordinal that is written once, later, into a row that views already see. A view of `n` events treats
/// values
/// >= `n` as "not yet", so it never changes.
class LateEvent {
 public:
  static constexpr std::uint32_t never = 0xFFFF'FFFF;

  LateEvent() = default;
  LateEvent& operator=(const LateEvent& other) {
    value_.store(other.value_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  LateEvent(const LateEvent& other) : value_(other.value_.load(std::memory_order_relaxed)) {}
  ~LateEvent() = default;

  std::uint32_t get() const { return value_.load(std::memory_order_relaxed); }
  void set(std::uint32_t event) { value_.store(event, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> value_{never};
};

/// Up to block_rows numbers, each stored in as many whole bytes as the largest so far needs.
class PackedBlock {
 public:
  explicit PackedBlock(unsigned width = 1)
      : width_(width), bytes_(new std::byte[block_rows * width + sizeof(std::uint64_t)]) {}

  unsigned width() const { return width_; }
  static unsigned width_of(std::uint64_t value) { return (static_cast<unsigned>(std::bit_width(value | 1U)) + 7) / 8; }

  /// Rows are set in order: bytes after row `i` are overwritten.
  void set(std::size_t i, std::uint64_t value) { std::memcpy(bytes_.get() + i * width_, &value, sizeof value); }
  std::uint64_t get(std::size_t i) const {
    const std::byte* at = bytes_.get() + i * width_;
    std::uint64_t value = 0;
    // Constant sizes, because a call of memcpy for each number would be too slow.
    if (width_ == 4) {
      std::memcpy(&value, at, 4);
    } else if (width_ == 3) {
      std::memcpy(&value, at, 3);
    } else if (width_ == 6) {
      std::memcpy(&value, at, 6);
    } else if (width_ == 2) {
      std::memcpy(&value, at, 2);
    } else if (width_ == 1) {
      std::memcpy(&value, at, 1);
    } else if (width_ == 5) {
      std::memcpy(&value, at, 5);
    } else {
      std::memcpy(&value, at, width_);
    }
    return value;
  }

 private:
  unsigned width_;
  std::unique_ptr<std::byte[]> bytes_;  // NOLINT(modernize-avoid-c-arrays)
};

/// A snapshot of a column of numbers.
class PackedView {
 public:
  using Blocks = std::vector<std::shared_ptr<const PackedBlock>>;

  PackedView() = default;
  PackedView(std::shared_ptr<const Blocks> blocks, std::size_t count) : blocks_(std::move(blocks)), count_(count) {}
  std::size_t size() const { return count_; }
  std::uint64_t operator[](std::size_t i) const { return (*blocks_)[i / block_rows]->get(i % block_rows); }

 private:
  std::shared_ptr<const Blocks> blocks_;
  std::size_t count_ = 0;
};

/// The writer's end of a column of numbers. Little-endian machines only, like all that CUDA runs on.
class GrowingPacked {
 public:
  void push_back(std::uint64_t value) {
    const std::size_t row = count_ % block_rows;
    const unsigned width = PackedBlock::width_of(value);
    if (row == 0) blocks_.push_back(std::make_shared<PackedBlock>(width));
    if (width > blocks_.back()->width()) widen(row, width);
    blocks_.back()->set(row, value);
    ++count_;
  }
  std::size_t size() const { return count_; }
  std::uint64_t operator[](std::size_t i) const { return blocks_[i / block_rows]->get(i % block_rows); }

  PackedView view() const {
    return {std::make_shared<const PackedView::Blocks>(blocks_.begin(), blocks_.end()), count_};
  }

 private:
  /// The latest block, with this many rows set. Views keep the narrower one that it replaced.
  void widen(std::size_t rows, unsigned width) {
    auto wider = std::make_shared<PackedBlock>(width);
    for (std::size_t i = 0; i < rows; ++i) wider->set(i, blocks_.back()->get(i));
    blocks_.back() = std::move(wider);
  }

  std::vector<std::shared_ptr<PackedBlock>> blocks_;
  std::size_t count_ = 0;
};

}  // namespace memreel::viewer
