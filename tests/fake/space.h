// A range of addresses, of which pieces are taken and given back: smallest fitting hole, lowest address first, so that
// an address given back is soon handed out again, possibly to another thread.
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
    auto next = holes_.lower_bound(address);
    if (next != holes_.end() && next->first == address + size) {
      size += next->second;
      next = drop(next);
    }
    if (next != holes_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == address) {
        address = before->first;
        size += before->second;
        drop(before);
      }
    }
    holes_[address] = size;
    by_size_.insert({size, address});
  }

  std::optional<std::uint64_t> take(std::uint64_t size) {
    const auto found = by_size_.lower_bound({size, 0});
    if (found == by_size_.end()) return std::nullopt;
    const auto [hole, address] = *found;
    drop(holes_.find(address));
    if (hole > size) {
      holes_[address + size] = hole - size;
      by_size_.insert({hole - size, address + size});
    }
    return address;
  }

  /// The size of the hole that begins at `address`; 0 when none does.
  std::uint64_t hole_at(std::uint64_t address) const {
    const auto found = holes_.find(address);
    return found == holes_.end() ? 0 : found->second;
  }
  void remove_hole(std::uint64_t address) { drop(holes_.find(address)); }

 private:
  using Holes = std::map<std::uint64_t, std::uint64_t>;

  Holes::iterator drop(Holes::iterator hole) {
    by_size_.erase({hole->second, hole->first});
    return holes_.erase(hole);
  }

  Holes holes_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
};

}  // namespace fake
