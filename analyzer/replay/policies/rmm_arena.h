// SPDX-License-Identifier: Apache-2.0
// rmm.arena{size=half}: RMM's arena_memory_resource.
//
// Source: rmm/mr/detail/{arena.hpp,arena_memory_resource_impl} of RMM 25.12 to 26.12, without the size classes of a
// compile-time option.
//
// - The arena is one piece of memory of a fixed size, obtained before the program begins and cut into superblocks of 1
//   MiB or more, which are cut into blocks. Requests are rounded up to 256 B; one for 0 bytes gets no memory.
// - Superblocks belong to the global arena or to that of a stream. A request of up to 1 MiB is served from the arena of
//   its stream; if nothing there fits, a superblock of the global arena moves there first. A larger request is served
//   from the global arena.
// - Placement is always first fit: the lowest superblock that has a block that fits, in it the lowest such block, cut
//   exactly. An empty superblock of the global arena is cut before it is used, to the request but at least 1 MiB, if 1
//   MiB or more remains.
// - A freed block merges with its neighbours inside its superblock. A superblock of the global arena that becomes empty
//   merges with empty neighbours of the global arena; one of a stream stays with it.
// - If a request fails, the host waits for the device, every superblock returns to the global arena, empty or not, and
//   the request is tried once more.
// - The host waits for the stream when a block of more than 1 MiB is freed, and when a block is freed that is not in
//   the arena of the freeing stream. empty_cache has no effect.
// - `size`: RMM's default is half of the device's free memory. On a device without limit, `half` is an arena without
//   limit: reserved bytes are the highest extent ever reached from its beginning, the smallest size that would have
//   sufficed. If the device refuses the size, RMM throws: every request fails.
//
// Assumed: as in rmm_pool.h about the streams of frees and about memory still in use by the device. Streams 0 and 1
// have an arena each, as in RMM; RMM's arenas per thread, for the per-thread default stream (2), are one.
#pragma once

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/address_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/heap/maxima.h"
#include "analyzer/replay/policies/block_policy.h"

namespace memreel {

struct RmmArenaSettings {
  std::optional<Bytes> size;  // none: half of the device
};

class RmmArena : public BlockPolicy {
 public:
  using Settings = RmmArenaSettings;
  static constexpr Bytes alignment = 256_B;
  static constexpr Bytes least_superblock = 1_MiB;

  RmmArena(const Prepared& heap, const RmmArenaSettings& settings, SimulatedDevice& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void freed_on(std::uint32_t slot, std::uint32_t pool_stream) {
    arena_of_slot_[slot] = arena_of_pool_stream_[pool_stream];
  }
  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes requested);
  void free_completed(std::uint32_t slot, Bytes requested);
  void empty_cache() {}

  Bytes largest_free() const;
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state == BlockState::free) visit(FreeBlock{.size = block.size});
    });
    if (reached_ > top_) visit(FreeBlock{.size = reached_ - top_});
  }

 private:
  static constexpr std::uint32_t global = 0, no_superblock = 0xFFFF'FFFF;

  /// Its blocks store its number in Block::arena.
  struct Superblock {
    Address address;
    Bytes size;
    std::uint32_t owner = global;                                  // an arena
    BlockId last = BlockId::none;                                  // its block at the highest address
    std::uint32_t previous = no_superblock, next = no_superblock;  // by address
  };

  Superblock& superblock_of(BlockId block) { return superblocks_[table_[block].arena]; }
  /// Whether a superblock has no block in use.
  bool is_empty(const Superblock& superblock) const {
    const Block& block = table_[superblock.last];
    return block.state == BlockState::free && block.previous == BlockId::none;
  }
  AddressIndex& arena_of(BlockId block) { return arenas_[superblock_of(block).owner]; }
  /// Must follow every change of an arena: its largest block is looked for when it is asked about.
  void note_change(std::uint32_t arena) {
    if (!is_stale_[arena]) stale_.push_back(arena);
    is_stale_[arena] = true;
  }

  BlockId serve(Bytes size, std::uint32_t arena);
  bool can_be_cut(std::uint32_t number, Bytes size) const;
  std::uint32_t cut_superblock(BlockId block, Bytes size);
  std::uint32_t cut_top(Bytes size);
  void move_superblock(BlockId block, std::uint32_t arena);
  BlockId cut_block(BlockId id, Bytes size);
  BlockId cut_fresh(std::uint32_t superblock, Bytes size);
  void defragment();
  void coalesce(BlockId id);
  void coalesce_superblock(std::uint32_t number);
  void merge_with_next(std::uint32_t number);
  void give_to_top(std::uint32_t number);
  std::uint32_t add_superblock(const Superblock& superblock);
  void remove_superblock(std::uint32_t number);
  void put_free(BlockId id);
  void take_out(BlockId id);

  SimulatedDevice& device_;
  bool usable_ = true;  // the device provided the arena
  /// The last superblock, from top_ to end_, empty and part of the global arena; none if they are equal. It is in no
  /// list, because in an arena without limit only what was reached so far counts.
  Address top_, end_, reached_;
  std::vector<Superblock> superblocks_;
  std::vector<std::uint32_t> unused_superblocks_;
  std::uint32_t last_superblock_ = no_superblock;  // by address
  std::vector<std::uint32_t> owned_by_streams_;    // superblocks, in the order they moved there
  std::vector<AddressIndex> arenas_;               // free blocks; the global arena, then one for each stream
  mutable Maxima largest_;                         // free block, by arena, unless it is stale
  mutable std::vector<std::uint32_t> stale_;
  mutable std::vector<bool> is_stale_;  // by arena
  std::vector<std::uint32_t> arena_of_pool_stream_;
  std::vector<std::uint32_t> arena_of_slot_;  // that of its stream; that of the free, once it is known
};

PolicyEntry rmm_arena_entry();

}  // namespace memreel
