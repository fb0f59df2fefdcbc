// SPDX-License-Identifier: Apache-2.0
// The largest of many numbers of which one changes at a time: of the largest free blocks of a heap's pools and streams,
// of which there may be a hundred thousand.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <numeric>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

// Up to 512 numbers whose minimum is always known.
//
// They are in groups of eight; the least of each group plays against those of the neighbouring groups, and so on: three
// levels. Adding a number touches one place per level, removing one a group per level, and nothing branches on the
// data: mispredicting every other step of a search would cost more than all of this.

class Tournament {
 public:
  static constexpr unsigned capacity = 512;

  /// Numbers must be below it: their places are stored with them in 64 bits.
  static constexpr std::uint64_t limit = (std::uint64_t{1} << 55U) - 1;

  Tournament() {
    players_.fill(none);
    groups_.fill(none);
    supergroups_.fill(none);
    std::iota(gaps_.rbegin(), gaps_.rend(), std::uint16_t{0});  // the first place is assigned first
  }

  unsigned size() const { return capacity - gap_count_; }
  bool full() const { return gap_count_ == 0; }

  /// Returns the number's place, which does not change. The tournament must not be full.
  unsigned add(std::uint64_t number) {
    assert(!full() && number < limit);
    const unsigned place = gaps_[--gap_count_];
    const std::uint64_t player = (number << place_bits) | place;
    players_[place] = player;
    groups_[place / group] = std::min(groups_[place / group], player);
    supergroups_[place / group / group] = std::min(supergroups_[place / group / group], player);
    return place;
  }

  /// Removes the number at a place.
  void remove(unsigned place) {
    assert(players_[place] != none);
    players_[place] = none;
    groups_[place / group] = least_of_group(players_, place / group);
    supergroups_[place / group / group] = least_of_group(groups_, place / group / group);
    gaps_[gap_count_++] = static_cast<std::uint16_t>(place);
  }

  /// The place of the least number. The tournament must not be empty.
  unsigned least() const { return static_cast<unsigned>(least_of_group(supergroups_, 0) % capacity); }

  /// Calls `visit(place, number)` for all, by place.
  void for_each(auto&& visit) const {
    for (unsigned g = 0; g < groups_.size(); ++g) {
      if (groups_[g] == none) continue;
      for (unsigned place = g * group; place < (g + 1) * group; ++place)
        if (players_[place] != none) visit(place, players_[place] >> place_bits);
    }
  }

 private:
  static constexpr unsigned group = 8;  // a cache line
  static constexpr unsigned place_bits = 9;
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  static_assert(capacity == group * group * group && capacity == 1U << place_bits);
  static_assert(limit == none >> place_bits);

  template <std::size_t N>
  static std::uint64_t least_of_group(const std::array<std::uint64_t, N>& players, unsigned number) {
    const std::uint64_t* const p = &players[std::size_t{number} * group];
    const auto lesser = [](std::uint64_t a, std::uint64_t b) { return a < b ? a : b; };
    return lesser(lesser(lesser(p[0], p[1]), lesser(p[2], p[3])), lesser(lesser(p[4], p[5]), lesser(p[6], p[7])));
  }

  alignas(64) std::array<std::uint64_t, group> supergroups_;
  std::array<std::uint64_t, capacity / group> groups_;
  std::array<std::uint64_t, capacity> players_;
  std::array<std::uint16_t, capacity> gaps_;
  unsigned gap_count_ = capacity;
};

/// A tree: each node has the larger of its two children. A change costs the levels that it changes.
class Maxima {
 public:
  /// `count` zeros.
  explicit Maxima(std::size_t count = 1) { resize(count); }

  /// Makes them `count` zeros.
  void resize(std::size_t count) {
    leaves_ = std::bit_ceil(std::max<std::size_t>(count, 1));
    nodes_.assign(2 * leaves_, Bytes{});
  }

  [[gnu::always_inline]] void set(std::size_t number, Bytes value) {
    std::size_t node = leaves_ + number;
    if (nodes_[node] == value) return;
    nodes_[node] = value;
    while ((node /= 2) > 0) {
      const Bytes larger = std::max(nodes_[2 * node], nodes_[2 * node + 1]);
      if (nodes_[node] == larger) return;
      nodes_[node] = larger;
    }
  }

  Bytes largest() const { return nodes_[1]; }

  /// The first number from `from` on whose value is at least `least`, which must not be 0; the count or more if there
  /// is none.
  std::size_t first(Bytes least, std::size_t from = 0) const {
    if (from >= leaves_) return from;
    std::size_t node = leaves_ + from;
    while (nodes_[node] < least) {
      while (node % 2 == 1) node /= 2;  // to the right of all that was seen
      if (node == 0) return leaves_;
      ++node;
    }
    while (node < leaves_) node = 2 * node + (nodes_[2 * node] < least ? 1 : 0);
    return node - leaves_;
  }

 private:
  std::size_t leaves_ = 1;
  std::vector<Bytes> nodes_;  // the root is 1, the children of n are 2n and 2n + 1
};

}  // namespace memreel
