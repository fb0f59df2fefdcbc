// SPDX-License-Identifier: Apache-2.0
// Byte strings that hooks encounter (names, code objects), each stored once and identified by a number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace memreel {

/// Any thread may look up and add at any time, without locks, system calls or allocation. Nothing is ever removed.
class InternedBytes {
 public:
  using Parts = std::initializer_list<std::span<const std::byte>>;

  /// Reserves address space for `strings` strings of `bytes` in total; pages are committed as it fills. If the system
  /// refuses, the table behaves as full.
  InternedBytes(std::uint32_t strings, std::size_t bytes);
  ~InternedBytes();
  InternedBytes(const InternedBytes&) = delete;
  InternedBytes& operator=(const InternedBytes&) = delete;

  /// The number of the concatenation of `parts`, from 1; 0 if there is no room, which is counted.
  std::uint32_t number_of(Parts parts);

  /// The string with a number from number_of(). Valid for the lifetime of this object; aligned to 8 bytes. Its data is
  /// null for any other number.
  std::span<const std::byte> operator[](std::uint32_t number) const;

  bool equal(std::uint32_t number, Parts parts) const;

  /// How many strings did not fit.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Row;
  std::uint32_t add(Parts parts, std::size_t size, std::uint64_t hash);

  std::byte* memory_ = nullptr;
  std::size_t memory_size_ = 0;
  std::atomic<const Row*>* rows_ = nullptr;      // by number; the first is unused
  std::atomic<std::uint32_t>* slots_ = nullptr;  // hash table of numbers, open addressing; 0: empty
  std::byte* bytes_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t slot_mask_ = 0;
  std::size_t byte_capacity_ = 0;
  alignas(64) std::atomic<std::uint32_t> strings_used_ = 0;
  std::atomic<std::size_t> bytes_used_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

}  // namespace memreel
