// SPDX-License-Identifier: Apache-2.0
// Expandable segments of PyTorch's allocator: address ranges behind which memory is mapped on demand.
//
// Source: ExpandableSegment, find_expandable_block, map_block and unmap_block in c10/cuda/CUDACachingAllocator.cpp of
// PyTorch 2.11.
//
// - A range belongs to one arena. It is a chain of blocks that are allocated, free, or unmapped; neighbours of the same
//   state merge (unmapped ones too).
// - A request that no free block serves goes to the unmapped block at the lowest address of its arena that, together
//   with the free block before it, begins a chain of free and unmapped blocks with enough bytes; else to a new range.
//   Memory is mapped there from the front, block after block, until the first free block is large enough.
// - Memory is mapped and unmapped in whole runs, counted from the beginning of the range. Mapping rounds up to runs;
//   the excess is free. Unmapping a free block takes the whole runs inside it; the rest stays free.
// - A range that consists of one unmapped block is released.
// - A range ends where expandable_segments_reserve says (settings.h), in whole runs; a request larger than a range
//   fails as if the device had refused it.
// - Assumed: without that setting a range never ends. PyTorch's has 1.125 times the device's memory, which only a
//   program that maps behind many gaps uses up.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/policies/torch_pools.h"

namespace memreel {

/// Called when memory is mapped or unmapped.
struct MappedBytes {
  bool small = false;
  Bytes size;
  std::uint64_t runs = 0;
};

template <class Tie>
class TorchExpandable {
 public:
  using Arena = TorchArena<Tie>;

  TorchExpandable(TorchPools<Tie>& pools, Device& device) : pools_(pools), table_(pools.table()), device_(device) {}

  /// Whether any block can be part of a range.
  bool used() const { return !ranges_.empty(); }

  /// The search looks for the block that leaves the least remainder: an expandable one counts with the size it can grow
  /// to. `found`: the smallest that fits.
  BlockId prefer_bounded(const Arena& arena, BlockId found) const {
    while (table_[found].expandable && grows(table_[found])) {  // the others have their final size
      const BlockId next = arena.free.after(found);
      if (next == BlockId::none || capacity(next) >= capacity(found)) break;
      found = next;
    }
    return found;
  }

  /// The first block from `found` on that is not part of a range, or none.
  BlockId skip(const Arena& arena, BlockId found) const {
    while (found != BlockId::none && table_[found].expandable) found = arena.free.after(found);
    return found;
  }

  /// A block of at least `size` bytes, not yet marked free or otherwise; none if the device refuses, though some memory
  /// may already have been mapped. `most`: the size of a range's addresses; none: no limit. `mapped` is called for each
  /// mapped piece.
  BlockId allocate(Arena& arena, Bytes size, Bytes run, std::optional<Bytes> most, auto&& mapped) {
    if (most) most = whole_runs(*most, run);
    if (most && size > *most) return BlockId::none;
    BlockId block = find(arena, size);
    if (block == BlockId::none) block = reserve(arena, size, run, most);
    if (block == BlockId::none) return block;
    if (table_[block].state == BlockState::unmapped) block = map(arena, block, size, mapped);
    while (block != BlockId::none && table_[block].size < size)
      block = map(arena, table_[block].next, size - table_[block].size, mapped);
    if (block != BlockId::none) pools_.take_out(block);
    return block;
  }

  /// Addresses that were reserved when the recording began: one block, for the caller to divide among what is mapped in
  /// it and what is not.
  BlockId resume(const Arena& arena, const Device::Addresses& addresses, Bytes run) {
    ranges_.emplace(addresses.address, Range{run});
    const BlockId block = table_.add(addresses.address, addresses.size, arena.number);
    table_[block].expandable = true;
    return block;
  }
  void resume_unmapped(Arena& arena, BlockId id) {
    table_[id].state = BlockState::unmapped;
    arena.unmapped.emplace(place_of(id), id);
  }

  /// Unmaps the whole runs of a free block.
  void release(BlockId id, auto&& unmapped) {
    const auto& [base, range] = range_of(table_[id].address);
    const Bytes offset = table_[id].address - base;
    const Bytes begin = whole_runs(offset, range.run);
    const Bytes end = range.run * ((offset + table_[id].size) / range.run);
    if (begin >= end) return;
    pools_.take_out(id);
    if (begin > offset) {
      const BlockId front = table_.split_front(id, begin - offset);
      pools_.note_made(front);
      pools_.put_free(front);
    }
    if (table_[id].size > end - begin) {
      const BlockId front = table_.split_front(id, end - begin);
      pools_.note_made_behind(front, id);
      pools_.put_free(id);
      id = front;
    }
    device_.unmap(base + begin, end - begin);
    Arena& arena = pools_.arena_of(table_[id]);
    unmapped(MappedBytes{arena.small, end - begin, (end - begin) / range.run});
    put_unmapped(arena, id);
    if (!table_[id].is_split()) give_up(arena, id);
  }

 private:
  struct Range {
    Bytes run;
  };
  using Ranges = std::map<Address, Range>;  // by first address

  /// At least `size`.
  static Bytes whole_runs(Bytes size, Bytes run) { return run * ((size + run - 1_B) / run); }

  bool is_open(BlockId id) const {
    return id != BlockId::none && (table_[id].state == BlockState::free || table_[id].state == BlockState::unmapped);
  }

  /// Unmapped blocks are ordered by address in every release, however ties between free ones are broken.
  Address place_of(BlockId id) const { return device_.real(table_[id].address); }

  bool grows(const Block& block) const {
    return block.next != BlockId::none && table_[block.next].state == BlockState::unmapped;
  }
  Bytes capacity(BlockId id) const {
    const Block& block = table_[id];
    return grows(block) ? block.size + table_[block.next].size : block.size;
  }

  const typename Ranges::value_type& range_of(Address address) const {
    return *std::prev(ranges_.upper_bound(address));
  }

  BlockId find(const Arena& arena, Bytes size) const {
    for (const auto& [address, unmapped] : arena.unmapped) {
      const BlockId before = table_[unmapped].previous;
      const BlockId first = before != BlockId::none && table_[before].state == BlockState::free ? before : unmapped;
      Bytes room;
      for (BlockId block = first; room < size && is_open(block); block = table_[block].next) room += table_[block].size;
      if (room >= size) return first;
    }
    return BlockId::none;
  }

  BlockId reserve(Arena& arena, Bytes size, Bytes run, std::optional<Bytes> most) {
    const auto addresses = device_.reserve_addresses(size, run);
    if (!addresses) return BlockId::none;
    ranges_.emplace(addresses->address, Range{run});
    const BlockId block =
        table_.add(addresses->address, std::min(addresses->size, most.value_or(addresses->size)), arena.number);
    table_[block].expandable = true;
    pools_.note_made(block);
    put_unmapped(arena, block);
    return block;
  }

  /// Maps the front of an unmapped block: `size` bytes rounded up to runs, or the whole block.
  BlockId map(Arena& arena, BlockId id, Bytes size, auto&& mapped) {
    const Bytes run = range_of(table_[id].address).second.run;
    const Bytes taken = std::min(whole_runs(size, run), table_[id].size);
    if (!device_.map(table_[id].address, taken)) return BlockId::none;
    mapped(MappedBytes{arena.small, taken, taken / run});
    arena.unmapped.erase(place_of(id));
    if (taken < table_[id].size) {
      const BlockId front = table_.split_front(id, taken);
      pools_.note_made_behind(front, id);
      arena.unmapped.emplace(place_of(id), id);
      id = front;
    }
    pools_.merge_with_free_neighbours(id);
    pools_.put_free(id);
    return id;
  }

  void put_unmapped(Arena& arena, BlockId id) {
    Block& block = table_[id];
    block.state = BlockState::unmapped;
    const auto merges = [&](BlockId other) {
      if (other == BlockId::none || table_[other].state != BlockState::unmapped) return false;
      arena.unmapped.erase(place_of(other));
      return true;
    };
    if (merges(block.previous)) table_.absorb_previous(id);
    if (merges(block.next)) table_.absorb_next(id);
    arena.unmapped.emplace(place_of(id), id);
  }

  void give_up(Arena& arena, BlockId id) {
    const Address base = table_[id].address;
    arena.unmapped.erase(place_of(id));
    ranges_.erase(base);
    table_.remove(id);
    device_.release_addresses(base);
  }

  TorchPools<Tie>& pools_;
  BlockTable& table_;
  Device& device_;
  Ranges ranges_;
};

}  // namespace memreel
