// SPDX-License-Identifier: Apache-2.0
// An address range that hands out and takes back pieces: best fit, lowest address first, so that a freed address is
// soon reused, possibly by another thread.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace fake {

class Space {
 public:
  void add(std::uint64_t address, std::uint64_t size) {
    auto next = gaps_.lower_bound(address);
    if (next != gaps_.end() && next->first == address + size) {
      size += next->second;
      next = drop(next);
    }
    if (next != gaps_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == address) {
        address = before->first;
        size += before->second;
        drop(before);
      }
    }
    gaps_[address] = size;
    by_size_.insert({size, address});
  }

  std::optional<std::uint64_t> take(std::uint64_t size) {
    const auto found = by_size_.lower_bound({size, 0});
    if (found == by_size_.end()) return std::nullopt;
    const auto [gap, address] = *found;
    drop(gaps_.find(address));
    if (gap > size) {
      gaps_[address + size] = gap - size;
      by_size_.insert({gap - size, address + size});
    }
    return address;
  }

  /// The size of the gap that begins at `address`; 0 when none does.
  std::uint64_t gap_at(std::uint64_t address) const {
    const auto found = gaps_.find(address);
    return found == gaps_.end() ? 0 : found->second;
  }
  void remove_gap(std::uint64_t address) { drop(gaps_.find(address)); }

 private:
  using Gaps = std::map<std::uint64_t, std::uint64_t>;

  Gaps::iterator drop(Gaps::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    return gaps_.erase(gap);
  }

  Gaps gaps_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
};

}  // namespace fake
