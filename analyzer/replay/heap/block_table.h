// SPDX-License-Identifier: Apache-2.0
// The blocks of a heap: the pieces its segments are cut into, each linked to its neighbours.
#pragma once

#include <cassert>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// Hints that an address will be accessed soon. Always inlined: GCC drops calls of functions that only prefetch,
/// because they have no effect.
[[gnu::always_inline]] inline void prefetch(const void* place) { __builtin_prefetch(place); }

/// Identifies a block of a BlockTable while the block exists; ids are reused.
enum class BlockId : std::uint32_t { none = 0xFFFF'FFFF };

enum class BlockState : std::uint8_t {
  free,
  allocated,
  pending,   // freed by the program, still in use by the device
  unmapped,  // addresses without memory
};

/// Half a cache line. At least one byte large.
struct Block {
  Address address;
  Bytes size;
  BlockId previous = BlockId::none;  // the neighbour in the same segment that ends where this block begins
  BlockId next = BlockId::none;
  std::uint32_t arena = 0;  // its group of free blocks, numbered by the policy
  BlockState state = BlockState::free;
  bool expandable = false;  // part of an address range in which memory is mapped on demand
  std::uint16_t place = 0;  // position in a BestFitIndex, which maintains it

  /// Whether its segment is cut into several pieces.
  bool is_split() const { return previous != BlockId::none || next != BlockId::none; }
};
static_assert(sizeof(Block) == 32);

class BlockTable {
 public:
  Block& operator[](BlockId id) { return blocks_[index(id)]; }
  const Block& operator[](BlockId id) const { return blocks_[index(id)]; }

  /// Hints that a block and its neighbours will be accessed soon. Any id is allowed, even a stale one.
  [[gnu::always_inline]] void prefetch_block(BlockId id) const {
    if (index(id) < blocks_.size()) prefetch(&(*this)[id]);
  }
  [[gnu::always_inline]] void prefetch_neighbours(BlockId id) const {
    if (index(id) >= blocks_.size()) return;
    prefetch_block((*this)[id].previous);
    prefetch_block((*this)[id].next);
  }

  /// One more than the highest id ever assigned.
  std::size_t limit() const { return blocks_.size(); }

  /// Calls `visit` with every existing block.
  void for_each(auto&& visit) const {
    for (const Block& block : blocks_)
      if (block.size.count > 0) visit(block);
  }

  /// A free block without neighbours: a new segment.
  BlockId add(Address address, Bytes size, std::uint32_t arena) {
    const BlockId id = take_slot();
    (*this)[id] = {.address = address, .size = size, .arena = arena};
    return id;
  }

  /// Cuts `size` bytes, fewer than the block has, off its front. Returns the new front; `id` keeps the tail.
  BlockId split_front(BlockId id, Bytes size) {
    assert(size < (*this)[id].size);
    const BlockId front = take_slot();
    Block& tail = (*this)[id];
    // Field by field: otherwise GCC builds a whole Block on the stack first, in pieces whose stores it then waits for.
    Block& head = (*this)[front];
    head.address = tail.address;
    head.size = size;
    head.previous = tail.previous;
    head.next = id;
    head.arena = tail.arena;
    head.state = BlockState::free;
    head.place = 0;
    head.expandable = tail.expandable;
    if (tail.previous != BlockId::none) (*this)[tail.previous].next = front;
    tail.previous = front;
    tail.address = tail.address + size;
    tail.size -= size;
    return front;
  }

  /// Merges a block with its predecessor, whose id becomes invalid.
  void absorb_previous(BlockId id) {
    Block& block = (*this)[id];
    const BlockId gone = block.previous;
    const Block& other = (*this)[gone];
    block.address = other.address;
    block.size += other.size;
    block.previous = other.previous;
    if (block.previous != BlockId::none) (*this)[block.previous].next = id;
    release_slot(gone);
  }

  /// The same with its successor.
  void absorb_next(BlockId id) {
    Block& block = (*this)[id];
    const BlockId gone = block.next;
    const Block& other = (*this)[gone];
    block.size += other.size;
    block.next = other.next;
    if (block.next != BlockId::none) (*this)[block.next].previous = id;
    release_slot(gone);
  }

  /// Merges a block with those neighbours that satisfy the predicate `joins`. Calls `take_out` with each of them while
  /// it still exists. Returns their number.
  template <class Joins, class TakeOut>
  [[gnu::always_inline]] unsigned absorb_neighbours(BlockId id, const Joins& joins, const TakeOut& take_out) {
    const Block& block = (*this)[id];
    unsigned absorbed = 0;
    if (block.previous != BlockId::none && joins((*this)[block.previous])) {
      take_out(block.previous);
      absorb_previous(id);
      ++absorbed;
    }
    if (block.next != BlockId::none && joins((*this)[block.next])) {
      take_out(block.next);
      absorb_next(id);
      ++absorbed;
    }
    return absorbed;
  }

  /// The same with the free neighbours.
  template <class TakeOut>
  [[gnu::always_inline]] unsigned absorb_free_neighbours(BlockId id, const TakeOut& take_out) {
    return absorb_neighbours(
        id, [](const Block& block) { return block.state == BlockState::free; }, take_out);
  }

  /// Links two adjacent blocks of one segment: `second` begins where `first` ends.
  void link(BlockId first, BlockId second) {
    assert((*this)[first].address + (*this)[first].size == (*this)[second].address);
    (*this)[first].next = second;
    (*this)[second].previous = first;
  }

  /// Removes a block and unlinks it from its neighbours.
  void remove(BlockId id) {
    const Block& block = (*this)[id];
    if (block.previous != BlockId::none) (*this)[block.previous].next = BlockId::none;
    if (block.next != BlockId::none) (*this)[block.next].previous = BlockId::none;
    release_slot(id);
  }

 private:
  BlockId take_slot() {
    if (unused_ == BlockId::none) {
      blocks_.emplace_back();
      return BlockId{static_cast<std::uint32_t>(blocks_.size() - 1)};
    }
    const BlockId id = unused_;
    unused_ = (*this)[id].next;
    return id;
  }
  void release_slot(BlockId id) {
    (*this)[id].next = unused_;
    (*this)[id].size = {};
    unused_ = id;
  }

  std::vector<Block> blocks_;
  BlockId unused_ = BlockId::none;  // linked by `next`
};

// LIFO lists of free blocks, used by allocators with bounded running time.
//
// The links are in one array indexed by block, next to the BlockTable and not in it, because policies that search
// differently don't need them. Each list is a ring through its own sentinel, so adding and removing need not check
// whether the list is empty.

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
