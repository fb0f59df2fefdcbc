// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/rmm_arena.h"

#include <algorithm>
#include <map>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/policies/rmm_pool.h"

namespace memreel {

RmmArena::RmmArena(const Prepared& heap, const RmmArenaSettings& settings, SimulatedDevice& device)
    : BlockPolicy(heap), device_(device), arenas_(1), arena_of_slot_(heap.slot_count + 1) {
  std::map<std::uint64_t, std::uint32_t> arenas;
  for (const PoolStream& pool_stream : heap.pool_streams) {
    const auto [arena, is_new] =
        arenas.try_emplace(pool_stream.stream_handle, static_cast<std::uint32_t>(arenas_.size()));
    if (is_new) arenas_.emplace_back();
    arena_of_pool_stream_.push_back(arena->second);
  }
  largest_.resize(arenas_.size());
  is_stale_.resize(arenas_.size());
  ++calls_.malloc;
  if (!settings.size && !device.capacity()) {
    end_ = Address{} + device.limit();
    return;
  }
  const Bytes size = settings.size ? *settings.size : RmmPoolSettings{}.initial_on(device);
  usable_ = size >= least_superblock && device.extend(size);
  if (!usable_) return;
  end_ = reached_ = Address{} + size;
  use_.reserved = use_.free = size;
}

bool RmmArena::allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
  if (!usable_) return false;
  block_of_[slot] = BlockId::none;
  if (requested == 0_B) return true;
  const Bytes size = round_up(requested, alignment);
  const std::uint32_t arena = size <= least_superblock ? arena_of_pool_stream_[pool_stream] : global;
  BlockId block = serve(size, arena);
  if (block == BlockId::none) [[unlikely]] {
    defragment();
    block = serve(size, arena);
  }
  if (block == BlockId::none) return false;
  use_.allocated += size;
  block_of_[slot] = block;
  arena_of_slot_[slot] = arena_of_pool_stream_[pool_stream];
  return true;
}

/// A newly allocated block in a superblock of `arena`, or none.
BlockId RmmArena::serve(Bytes size, std::uint32_t arena) {
  if (arena != global)
    if (const BlockId block = arenas_[arena].find(Address{}, size); block != BlockId::none)
      return cut_block(block, size);
  const BlockId block = arenas_[global].find(Address{}, size);
  if (block != BlockId::none && !can_be_cut(table_[block].arena, size)) {
    if (arena != global) move_superblock(block, arena);
    return cut_block(block, size);
  }
  const std::uint32_t fresh = block != BlockId::none ? cut_superblock(block, size) : cut_top(size);
  if (fresh == no_superblock) return BlockId::none;
  if (arena != global) owned_by_streams_.push_back(fresh);
  superblocks_[fresh].owner = arena;
  return cut_fresh(fresh, size);
}

/// Whether a superblock is empty and large enough to be cut in two.
bool RmmArena::can_be_cut(std::uint32_t number, Bytes size) const {
  const Superblock& superblock = superblocks_[number];
  return is_empty(superblock) && superblock.size >= std::max(least_superblock, size) + least_superblock;
}

/// Cuts a superblock for `size` bytes off the one that consists of `block`. The new block is not indexed yet.
std::uint32_t RmmArena::cut_superblock(BlockId block, Bytes size) {
  const Bytes head_size = std::max(least_superblock, size);
  const std::uint32_t tail = table_[block].arena;
  const auto [address, whole_size] = Extent{superblocks_[tail].address, superblocks_[tail].size};
  table_[block].address = superblocks_[tail].address = address + head_size;
  table_[block].size = superblocks_[tail].size = whole_size - head_size;
  arenas_[global].replace(address, whole_size, table_[block].address, table_[block].size, block);
  note_change(global);
  use_.free -= head_size;
  return add_superblock({.address = address, .size = head_size, .previous = superblocks_[tail].previous, .next = tail});
}

/// The same for the superblock at the top, which has no block. None if it is too small.
std::uint32_t RmmArena::cut_top(Bytes size) {
  const Bytes left = end_ - top_;
  if (left < size) return no_superblock;
  const Bytes head_size = std::max(least_superblock, size);
  const Bytes taken = left >= head_size + least_superblock ? head_size : left;
  if (const Address end = top_ + taken; end > reached_) {
    if (!device_.extend(end - reached_)) return no_superblock;
    use_.reserved += end - reached_;
    use_.free += end - reached_;
    reached_ = end;
  }
  const Address address = top_;
  top_ = top_ + taken;
  use_.free -= taken;
  return add_superblock({.address = address, .size = taken, .previous = last_superblock_});
}

/// Moves a superblock of the global arena, with its free blocks, to another arena.
void RmmArena::move_superblock(BlockId block, std::uint32_t arena) {
  superblock_of(block).owner = arena;
  owned_by_streams_.push_back(table_[block].arena);
  while (table_[block].previous != BlockId::none) block = table_[block].previous;
  for (BlockId id = block; id != BlockId::none; id = table_[id].next) {
    if (table_[id].state != BlockState::free) continue;
    arenas_[global].erase(table_[id].address, table_[id].size);
    arenas_[arena].insert(table_[id].address, table_[id].size, id);
  }
  note_change(global);
  note_change(arena);
}

/// Allocates the front of a free block.
BlockId RmmArena::cut_block(BlockId id, Bytes size) {
  const Extent whole{table_[id].address, table_[id].size};
  BlockId taken = id;
  if (whole.size == size) {
    take_out(id);
  } else {
    taken = table_.split_front(id, size);
    arena_of(id).replace(whole.address, whole.size, table_[id].address, table_[id].size, id);
    note_change(superblock_of(id).owner);
    use_.free -= size;
  }
  table_[taken].state = BlockState::allocated;
  return taken;
}

/// The same in a superblock whose block is not indexed.
BlockId RmmArena::cut_fresh(std::uint32_t superblock, Bytes size) {
  const BlockId id = superblocks_[superblock].last;
  BlockId taken = id;
  if (table_[id].size > size) {
    taken = table_.split_front(id, size);
    put_free(id);
  }
  table_[taken].state = BlockState::allocated;
  return taken;
}

void RmmArena::free_requested(std::uint32_t slot, Bytes) {
  if (block_of_[slot] == BlockId::none) return;
  table_[block_of_[slot]].state = BlockState::pending;
  use_.allocated -= table_[block_of_[slot]].size;
}

void RmmArena::free_completed(std::uint32_t slot, Bytes) {
  const BlockId block = block_of_[slot];
  if (block == BlockId::none) return;
  const bool large = table_[block].size > least_superblock;
  const std::uint32_t owner = superblock_of(block).owner;
  if (large) ++calls_.sync;
  if (owner != arena_of_slot_[slot] && !(large && owner == global)) ++calls_.sync;
  coalesce(block);
  if (owner == global && is_empty(superblock_of(block))) coalesce_superblock(table_[block].arena);
}

/// Frees a block and merges it with its neighbours. The free block that grows keeps its place in the index.
void RmmArena::coalesce(BlockId id) {
  Block& block = table_[id];
  AddressIndex& arena = arena_of(id);
  block.state = BlockState::free;
  use_.free += block.size;
  std::optional<Extent> grown;
  if (block.previous != BlockId::none && table_[block.previous].state == BlockState::free) {
    grown = {table_[block.previous].address, table_[block.previous].size};
    table_.absorb_previous(id);
  }
  if (block.next != BlockId::none && table_[block.next].state == BlockState::free) {
    const Extent next{table_[block.next].address, table_[block.next].size};
    if (grown)
      arena.erase(next.address, next.size);
    else
      grown = next;
    table_.absorb_next(id);
  }
  if (grown)
    arena.replace(grown->address, grown->size, block.address, block.size, id);
  else
    arena.insert(block.address, block.size, id);
  note_change(superblock_of(id).owner);
  if (block.next == BlockId::none) superblock_of(id).last = id;
}

/// Merges an empty superblock of the global arena with its neighbours.
void RmmArena::coalesce_superblock(std::uint32_t number) {
  const auto merges = [&](std::uint32_t neighbour) {
    return neighbour != no_superblock && superblocks_[neighbour].owner == global && is_empty(superblocks_[neighbour]);
  };
  if (merges(superblocks_[number].next)) merge_with_next(number);
  if (const std::uint32_t previous = superblocks_[number].previous; merges(previous)) {
    merge_with_next(previous);
    number = previous;
  }
  if (superblocks_[number].address + superblocks_[number].size == top_) give_to_top(number);
}

void RmmArena::merge_with_next(std::uint32_t number) {
  Superblock& superblock = superblocks_[number];
  const Superblock& next = superblocks_[superblock.next];
  AddressIndex& free = arenas_[global];
  free.erase(next.address, next.size);
  free.replace(superblock.address, superblock.size, superblock.address, superblock.size + next.size, superblock.last);
  note_change(global);
  superblock.size += next.size;
  table_.link(superblock.last, next.last);
  table_.absorb_next(superblock.last);
  remove_superblock(superblock.next);
}

void RmmArena::give_to_top(std::uint32_t number) {
  const BlockId whole = superblocks_[number].last;
  top_ = superblocks_[number].address;
  take_out(whole);
  use_.free += table_[whole].size;
  table_.remove(whole);
  remove_superblock(number);
}

/// Returns every superblock to the global arena.
void RmmArena::defragment() {
  ++calls_.sync;
  for (const std::uint32_t number : owned_by_streams_) {
    Superblock& superblock = superblocks_[number];
    AddressIndex& arena = arenas_[superblock.owner];
    for (BlockId id = superblock.last; id != BlockId::none; id = table_[id].previous) {
      const Block& block = table_[id];
      if (block.state != BlockState::free) continue;
      arena.erase(block.address, block.size);
      arenas_[global].insert(block.address, block.size, id);
    }
    note_change(superblock.owner);
    note_change(global);
    superblock.owner = global;
    if (is_empty(superblock)) coalesce_superblock(number);
  }
  owned_by_streams_.clear();
}

/// A new superblock between `previous` and `next` with a single block, which is not indexed yet.
std::uint32_t RmmArena::add_superblock(const Superblock& superblock) {
  auto number = static_cast<std::uint32_t>(superblocks_.size());
  if (unused_superblocks_.empty()) {
    superblocks_.emplace_back();
  } else {
    number = unused_superblocks_.back();
    unused_superblocks_.pop_back();
  }
  superblocks_[number] = superblock;
  superblocks_[number].last = table_.add(superblock.address, superblock.size, number);
  if (superblock.previous != no_superblock) superblocks_[superblock.previous].next = number;
  (superblock.next == no_superblock ? last_superblock_ : superblocks_[superblock.next].previous) = number;
  return number;
}

void RmmArena::remove_superblock(std::uint32_t number) {
  const Superblock& gone = superblocks_[number];
  if (gone.previous != no_superblock) superblocks_[gone.previous].next = gone.next;
  (gone.next == no_superblock ? last_superblock_ : superblocks_[gone.next].previous) = gone.previous;
  unused_superblocks_.push_back(number);
}

void RmmArena::put_free(BlockId id) {
  Block& block = table_[id];
  block.state = BlockState::free;
  arena_of(id).insert(block.address, block.size, id);
  note_change(superblock_of(id).owner);
  use_.free += block.size;
}

void RmmArena::take_out(BlockId id) {
  const Block& block = table_[id];
  arena_of(id).erase(block.address, block.size);
  note_change(superblock_of(id).owner);
  use_.free -= block.size;
}

Bytes RmmArena::largest_free() const {
  for (const std::uint32_t arena : stale_) {
    largest_.set(arena, arenas_[arena].largest());
    is_stale_[arena] = false;
  }
  stale_.clear();
  return std::max(reached_ > top_ ? reached_ - top_ : 0_B, largest_.largest());
}

PolicyEntry rmm_arena_entry() {
  return {.info = {.name = "rmm.arena",
                   .description = "RAPIDS RMM's arena_memory_resource",
                   .parameters = {{"size", "half", rmm_size("half"),
                                   "what the arenas share, 1MiB or more; half: of the device's free memory"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto size = rmm_size_parameter(spec, "size", "half");
            if (!size) return size.error();
            if (size->value_or(RmmArena::least_superblock) < RmmArena::least_superblock)
              return bad_parameter(spec, "size", "1MiB or more");
            return BoundPolicy{
                .spec = spec,
                .unit = RmmArena::alignment,
                .run = [settings = RmmArenaSettings{.size = *size}](const Prepared& heap, const RunOptions& options) {
                  return run_policy<RmmArena>(heap, settings, options);
                }};
          }};
}

}  // namespace memreel
