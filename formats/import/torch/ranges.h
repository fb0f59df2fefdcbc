// Non-overlapping address ranges, each with a value.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

namespace memreel::torch {

/// Half-open; an end beyond the last address is that address.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  static Range of(std::uint64_t address, std::uint64_t size) {
    constexpr std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
    return {address, size > last - address ? last : address + size};
  }
};

template <class T>
class RangeMap {
 public:
  struct Item {
    Range range;
    T value;
  };

  /// Sets `range` to `value`, overwriting earlier values.
  void set(Range range, const T& value) {
    remove(range);
    if (range.begin < range.end) items_.emplace(range.begin, Tail{range.end, value});
  }

  void remove(Range range) {
    if (range.begin >= range.end) return;
    auto item = first_over(range.begin);
    while (item != items_.end() && item->first < range.end) {
      const std::uint64_t begin = item->first;
      const Tail tail = item->second;
      item = items_.erase(item);
      if (begin < range.begin) items_.emplace(begin, Tail{range.begin, tail.value});
      if (tail.end > range.end) item = std::next(items_.emplace(range.end, Tail{tail.end, tail.value}).first);
    }
  }

  /// The item that contains `address`.
  std::optional<Item> at(std::uint64_t address) const {
    const auto after = items_.upper_bound(address);
    if (after == items_.begin()) return std::nullopt;
    const auto& [begin, tail] = *std::prev(after);
    if (tail.end <= address) return std::nullopt;
    return Item{{begin, tail.end}, tail.value};
  }

  /// Calls `gap(Range)` for each part of `range` without a value.
  template <class Function>
  void for_each_gap(Range range, const Function& gap) const {
    std::uint64_t at = range.begin;
    for (auto item = first_over(range.begin); at < range.end && item != items_.end() && item->first < range.end;
         ++item) {
      if (item->first > at) gap(Range{at, item->first});
      at = item->second.end;
    }
    if (at < range.end) gap(Range{at, range.end});
  }

 private:
  struct Tail {
    std::uint64_t end;
    T value;
  };
  using Items = std::map<std::uint64_t, Tail>;

  typename Items::const_iterator first_over(std::uint64_t address) const {
    auto item = items_.upper_bound(address);
    if (item != items_.begin() && std::prev(item)->second.end > address) --item;
    return item;
  }

  Items items_;
};

}  // namespace memreel::torch
