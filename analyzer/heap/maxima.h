// The largest of many numbers of which one changes at a time: of the largest free blocks of a heap's pools and streams,
// of which there may be a hundred thousand.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

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
