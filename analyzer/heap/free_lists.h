// SPDX-License-Identifier: Apache-2.0
// LIFO lists of free blocks, used by allocators with bounded running time.
//
// The links are in one array indexed by block, next to the BlockTable and not in it, because policies that search
// differently don't need them. Each list is a ring through its own sentinel, so adding and removing need not check
// whether the list is empty.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/heap/block_table.h"

namespace memreel {

class FreeLists {
 public:
  explicit FreeLists(std::uint32_t list_count) : list_count_(list_count), links_(list_count) {
    for (std::uint32_t list = 0; list < list_count; ++list) links_[list] = {list, list};
  }

  /// The block must be in no list.
  void push_front(std::uint32_t list, BlockId id) {
    const std::uint32_t place = place_of(id);
    if (place >= links_.size()) [[unlikely]]
      links_.resize(place + place / 2 + 1);
    const std::uint32_t next = links_[list].next;
    links_[place] = {list, next};
    links_[next].previous = place;
    links_[list].next = place;
  }

  /// The block must be in a list. Returns true if that list is empty now.
  bool erase(BlockId id) {
    const Link link = links_[place_of(id)];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
    return link.previous == link.next;
  }

  bool empty(std::uint32_t list) const { return links_[list].next == list; }

  /// The list must not be empty.
  BlockId front(std::uint32_t list) const { return BlockId{links_[list].next - list_count_}; }

  /// Calls `visit` with every block of a list, from the front.
  void for_each(std::uint32_t list, auto&& visit) const {
    for (std::uint32_t place = links_[list].next; place != list; place = links_[place].next)
      visit(BlockId{place - list_count_});
  }

 private:
  struct Link {
    std::uint32_t previous = 0, next = 0;
  };

  std::uint32_t place_of(BlockId id) const { return list_count_ + index(id); }

  std::uint32_t list_count_;
  std::vector<Link> links_;  // of the lists, then of the blocks
};

}  // namespace memreel
