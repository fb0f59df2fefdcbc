// SPDX-License-Identifier: Apache-2.0
// buddy{min=512,max=32MiB}: blocks are powers of two, split into halves and merged with the half they were split from.
//
// - A request is rounded up to a power of two, at least `min`. It takes the most recently freed block of the smallest
//   sufficient size; a larger one is halved until it fits, always keeping the lower half.
// - A freed block merges with its buddy, the block whose offset differs only in the bit of their size, if that buddy is
//   whole and free; it then serves any stream.
// - If no block fits, it takes a region from the device: `max` bytes, or the request's own power of two if that is
//   larger. Regions never merge with one another.
// - empty_cache releases unused regions. So does a request whose region the device refuses, which then asks once more.
//
// Source: Knowlton, "A fast storage allocator" (CACM 8(10), 1965); last in, first out as in Knuth, "The Art of Computer
// Programming" vol. 1, 2.5, algorithms R and S. They manage one region: taking several and releasing them is this
// file's choice.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/policies/block_policy.h"

namespace memreel {

/// Both are powers of two.
struct BuddySettings {
  Bytes min = 512_B;
  Bytes max = 32_MiB;
};

class Buddy : public BlockPolicy {
 public:
  static constexpr bool any_addresses_do = true;

  /// `device` must outlive the policy.
  Buddy(const Prepared& heap, const BuddySettings& settings, SimulatedDevice& device)
      : BlockPolicy(heap), settings_(settings), device_(device) {}

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t /*pool_stream*/) {
    const unsigned order = order_of(requested);
    if (order >= orders) [[unlikely]]
      return false;
    std::uint64_t fitting = occupied_ >> order << order;
    if (fitting == 0) [[unlikely]] {
      if (!grow(order)) return false;
      fitting = occupied_ >> order << order;
    }
    auto from = static_cast<unsigned>(std::countr_zero(fitting));
    BlockId block = lists_.front(from);
    take_out(block, from);
    while (from > order) {
      --from;
      const BlockId lower = table_.split_front(block, bytes_of(from));
      put_free(block, from);
      block = lower;
    }
    table_[block].state = BlockState::allocated;
    use_.allocated += bytes_of(order);
    block_of_[slot] = block;
    return true;
  }

  void free(std::uint32_t slot, Bytes /*requested*/) { make_reusable(end_allocation(slot)); }
  void free_requested(std::uint32_t slot, Bytes /*requested*/) {
    table_[end_allocation(slot)].state = BlockState::pending;
  }
  void free_completed(std::uint32_t slot, Bytes /*requested*/) { make_reusable(block_of_[slot]); }
  void empty_cache();

  Bytes largest_free() const { return Bytes{std::bit_floor(occupied_)}; }

 private:
  static constexpr unsigned orders = 46;  // no device has more than 2^45 bytes

  /// The binary logarithm of the block size for a request; `orders` or more if no block can be that large.
  unsigned order_of(Bytes requested) const {
    return static_cast<unsigned>(std::bit_width(std::max(requested, settings_.min).count - 1));
  }
  static Bytes bytes_of(unsigned order) { return Bytes{std::uint64_t{1} << order}; }

  /// Takes a region that fits a block of `order`.
  bool grow(unsigned order);

  BlockId end_allocation(std::uint32_t slot) {
    const BlockId id = block_of_[slot];
    use_.allocated -= table_[id].size;
    return id;
  }

  void make_reusable(BlockId id) {
    auto order = static_cast<unsigned>(std::countr_zero(table_[id].size.count));
    for (;; ++order) {
      const Block& block = table_[id];
      // Adjacent blocks of equal size are buddies if the lower address is a multiple of twice the size.
      const bool lower = (block.address.value >> order & 1U) == 0;
      const BlockId buddy = lower ? block.next : block.previous;
      if (buddy == BlockId::none) break;
      const Block& other = table_[buddy];
      if (other.state != BlockState::free || other.size != block.size) break;
      take_out(buddy, order);
      if (lower)
        table_.absorb_next(id);
      else
        table_.absorb_previous(id);
    }
    put_free(id, order);
  }

  void put_free(BlockId id, unsigned order) {
    table_[id].state = BlockState::free;
    lists_.push_front(order, id);
    occupied_ |= std::uint64_t{1} << order;
    use_.free += bytes_of(order);
  }

  void take_out(BlockId id, unsigned order) {
    const auto emptied = static_cast<std::uint64_t>(lists_.erase(id));
    occupied_ &= ~(emptied << order);
    use_.free -= bytes_of(order);
  }

  BuddySettings settings_;
  SimulatedDevice& device_;
  FreeLists lists_{orders};     // by order
  std::uint64_t occupied_ = 0;  // bit set of orders with free blocks; its bit values are also their sizes
  // Addresses of regions, each a multiple of its size. Those of released regions are reused.
  Address end_;
  std::array<std::vector<Address>, orders> vacant_;
};

PolicyEntry buddy_entry();

}  // namespace memreel
