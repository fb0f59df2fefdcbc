// SPDX-License-Identifier: Apache-2.0
// A hash map for the hot paths of recording and replay: one array, no allocation per entry, removal without tombstones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// Spreads every bit of `x` over all bits of the result.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 32U)) * 0xD6E8FEB86659FD93;
  x = (x ^ (x >> 32U)) * 0xD6E8FEB86659FD93;
  return x ^ (x >> 32U);
}

/// What a FlatMap returns for a key that it does not hold.
inline constexpr std::uint32_t absent = 0xFFFF'FFFF;

/// Maps a small, trivially copyable `Key` to a 32-bit number below `absent`. `Hash` returns well mixed 64-bit values.
/// Open addressing with linear probing; at least half of the array is empty.
template <class Key, class Hash>
class FlatMap {
 public:
  std::uint32_t find(const Key& key) const {
    if (entries_.empty()) return absent;
    return entries_[place_of(key)].value;
  }

  /// Sets the value of `key`; returns its previous one.
  std::uint32_t put(const Key& key, std::uint32_t value) {
    if (2 * (count_ + 1) > entries_.size()) grow();
    Entry& entry = entries_[place_of(key)];
    if (entry.value == absent) {
      entry.key = key;
      ++count_;
    }
    return std::exchange(entry.value, value);
  }

  /// Returns its previous value.
  std::uint32_t erase(const Key& key) {
    if (entries_.empty()) return absent;
    std::size_t gap = place_of(key);
    const std::uint32_t value = entries_[gap].value;
    if (value == absent) return absent;
    --count_;
    // Moves up entries that it displaced, so that no probe ends early at an empty place.
    for (std::size_t i = next(gap); entries_[i].value != absent; i = next(i)) {
      const std::size_t distance_from_home = (i - home_of(entries_[i].key)) & mask();
      if (distance_from_home < ((i - gap) & mask())) continue;
      entries_[gap] = entries_[i];
      gap = i;
    }
    entries_[gap].value = absent;
    return value;
  }

  std::size_t size() const { return count_; }

 private:
  struct Entry {
    Key key{};
    std::uint32_t value = absent;
  };

  std::size_t mask() const { return entries_.size() - 1; }
  std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
  std::size_t home_of(const Key& key) const { return static_cast<std::size_t>(Hash{}(key)) & mask(); }

  /// The place of `key`, or the empty place for it.
  std::size_t place_of(const Key& key) const {
    std::size_t i = home_of(key);
    while (entries_[i].value != absent && !(entries_[i].key == key)) i = next(i);
    return i;
  }

  void grow() {
    std::vector<Entry> old(entries_.empty() ? 64 : 2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.value != absent) entries_[place_of(entry.key)] = entry;
  }

  std::vector<Entry> entries_;  // a power of two
  std::size_t count_ = 0;
};

// What finds an allocation again: its ID or, for events without one, where it is. With hashes for FlatMap.

struct AllocationHash {
  std::uint64_t operator()(AllocationId id) const { return mix_bits(index(id)); }
};

/// An address alone is not unique: a framework's block may begin where the driver's allocation does.
struct HeapAddress {
  Address address;
  HeapId heap = HeapId::none;

  friend bool operator==(const HeapAddress&, const HeapAddress&) = default;
};

struct HeapAddressHash {
  std::uint64_t operator()(const HeapAddress& key) const { return mix_bits(key.address.value + index(key.heap)); }
};

}  // namespace memreel
