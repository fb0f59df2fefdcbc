// SPDX-License-Identifier: Apache-2.0
#include "collector/interned/interned_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <optional>

namespace memreel {

struct InternedBytes::Row {
  std::uint64_t hash;
  std::size_t size;

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(static_cast<const void*>(this + 1)), size};
  }
};

namespace {

/// How the bytes are split into parts does not affect what is stored, but may affect the hash: users must split alike.
std::uint64_t hash_of(InternedBytes::Parts parts) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  std::uint64_t hash = 0;
  for (auto bytes : parts) {
    while (!bytes.empty()) {
      std::uint64_t word = bytes.size();
      const std::size_t n = std::min(bytes.size(), sizeof word);
      std::memcpy(&word, bytes.data(), n);
      hash = (std::rotl(hash, 27) ^ word) * odd;
      hash ^= hash >> 32U;
      bytes = bytes.subspan(n);
    }
  }
  return hash;
}

bool same(std::span<const std::byte> string, InternedBytes::Parts parts) {
  for (const auto part : parts) {
    if (part.size() > string.size()) return false;
    // std::equal compares std::byte one by one; memcmp may not be given the null pointer of an empty span.
    if (!part.empty() && std::memcmp(part.data(), string.data(), part.size()) != 0) return false;
    string = string.subspan(part.size());
  }
  return string.empty();
}

/// Takes `count` of what is left, and returns what was used before. Nothing is ever given back, not even at once:
/// others may have taken what follows it.
template <class Count>
std::optional<Count> claim(std::atomic<Count>& used, Count count, Count capacity) {
  Count before = used.load(std::memory_order_relaxed);
  do
    if (count > capacity - before) return std::nullopt;
  while (!used.compare_exchange_weak(before, before + count, std::memory_order_relaxed));
  return before;
}

}  // namespace

InternedBytes::InternedBytes(std::uint32_t strings, std::size_t bytes) {
  const std::size_t slots = std::bit_ceil(2 * std::size_t{strings});
  const std::size_t row_bytes = (std::size_t{strings} + 1) * sizeof(rows_[0]);
  const std::size_t slot_bytes = slots * sizeof(slots_[0]);
  const std::size_t padding = (row_bytes + slot_bytes) % alignof(Row);
  const std::size_t size = row_bytes + slot_bytes + padding + bytes;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(memory);
  memory_size_ = size;
  // Zero bytes are atomics of value zero.
  rows_ = static_cast<std::atomic<const Row*>*>(memory);
  slots_ = static_cast<std::atomic<std::uint32_t>*>(static_cast<void*>(memory_ + row_bytes));
  bytes_ = memory_ + row_bytes + slot_bytes + padding;
  capacity_ = strings;
  slot_mask_ = static_cast<std::uint32_t>(slots - 1);
  byte_capacity_ = bytes;
}

InternedBytes::~InternedBytes() {
  if (memory_ != nullptr) munmap(memory_, memory_size_);
}

std::uint32_t InternedBytes::number_of(Parts parts) {
  if (capacity_ > 0) {
    std::size_t size = 0;
    for (const auto part : parts) size += part.size();
    const std::uint64_t hash = hash_of(parts);
    std::uint32_t mine = 0;  // what this call added; unused if another thread was faster with an equal one
    for (std::uint32_t slot = static_cast<std::uint32_t>(hash) & slot_mask_;; slot = (slot + 1) & slot_mask_) {
      std::uint32_t number = slots_[slot].load(std::memory_order_acquire);
      if (number == 0) {
        if (mine == 0) mine = add(parts, size, hash);
        if (mine == 0) break;
        if (slots_[slot].compare_exchange_strong(number, mine, std::memory_order_acq_rel)) return mine;
      }
      const Row* const row = rows_[number].load(std::memory_order_acquire);
      if (row->hash == hash && row->size == size && same(row->bytes(), parts)) return number;
    }
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

/// The number of a new string; 0 if there is no room for it.
std::uint32_t InternedBytes::add(Parts parts, std::size_t size, std::uint64_t hash) {
  const std::size_t taken = (sizeof(Row) + size + alignof(Row) - 1) / alignof(Row) * alignof(Row);
  if (strings_used_.load(std::memory_order_relaxed) >= capacity_) return 0;
  const auto begin = claim(bytes_used_, taken, byte_capacity_);
  if (!begin) return 0;
  const auto before = claim(strings_used_, std::uint32_t{1}, capacity_);
  if (!before) return 0;
  const std::uint32_t number = *before + 1;
  const Row* const row = new (bytes_ + *begin) Row{hash, size};
  std::byte* to = bytes_ + *begin + sizeof(Row);
  for (const auto part : parts) to = std::copy(part.begin(), part.end(), to);
  rows_[number].store(row, std::memory_order_release);
  return number;
}

std::span<const std::byte> InternedBytes::operator[](std::uint32_t number) const {
  const Row* const row = number > 0 && number <= capacity_ ? rows_[number].load(std::memory_order_acquire) : nullptr;
  return row != nullptr ? row->bytes() : std::span<const std::byte>{};
}

bool InternedBytes::equal(std::uint32_t number, Parts parts) const { return same((*this)[number], parts); }

}  // namespace memreel
