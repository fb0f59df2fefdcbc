// SPDX-License-Identifier: Apache-2.0
// gmlake{fragLimit=512MiB,reuseLimit=10,level=0}: PyTorch's allocator with stitching of large blocks.
//
// - Small requests, up to 1 MiB, are served as by torch.native. Larger ones are rounded up to pages of 2 MiB, and their
//   segments consist of such pages, mapped one by one; a remainder of at least a page is split off.
// - A request that no free block fits takes, in this order: the smallest stitched block that fits, whose pages are all
//   free and which is at most `reuseLimit` times as large, or the front of it; a newly stitched block (`level` 0); a
//   segment; a newly stitched block (level 1); a segment after all unused segments were released; a newly stitched
//   block (level 2).
// - Stitching applies to requests of `fragLimit` and more. It takes the free blocks of the pool and stream, the largest
//   first, ties by highest address, until they suffice, and of the last one only the front; at least two must be free.
//   Their pages are mapped a second time, one after the other.
// - A stitched block outlives its allocation. It can be reused whenever all its pages are free; meanwhile they serve
//   other blocks. It is unmapped when a segment under it is released, at empty_cache, and when more than 1000 GiB are
//   stitched, in each case unless it is in use.
//
// Source: GMLake/src/CUDACachingAllocator.cpp of intelligent-machine-learning/glake; the paper is "GMLake: efficient
// and transparent GPU memory defragmentation for large-scale DNN training with virtual memory stitching" (ASPLOS 2024).
// Parameters are its environment variables (level: defragLevel). Not modelled: mapping that fails for lack of
// addresses, and the settings of PYTORCH_CUDA_ALLOC_CONF. Private pools stitch among their own blocks.
#pragma once

#include <algorithm>
#include <array>
#include <map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/heap/maxima.h"
#include "formats/model/units.h"
#include "formats/torch/settings.h"

namespace memreel {

// Blocks that are mapped a second time, one after the other: which pages belong to which, and how many are in use.
//
// A stitched block stores its pages as address ranges of the blocks below it. These are split and merged while it
// exists, so the mapping from a block to the blocks stitched over it is kept per block and updated along the way.

class Stitches {
 public:
  using Id = std::uint32_t;
  static constexpr Id none = 0xFFFF'FFFF;

  struct Stitched {
    Address address;
    Bytes size;
    std::vector<Extent> pieces;  // in mapping order
    std::uint32_t arena = 0;
    Bytes used;           // of its pages, by any block
    Bytes taken;          // from its front, by its own allocation; 0 without one
    bool doomed = false;  // a segment under it is gone: never reuse it

    bool is_available() const { return used == Bytes{} && taken == Bytes{} && !doomed; }
  };

  /// Of blocks in `table`, which must outlive this object.
  explicit Stitches(const BlockTable& table) : table_(table) {}

  Stitched& operator[](Id id) { return stitched_[id]; }
  const Stitched& operator[](Id id) const { return stitched_[id]; }

  /// Stitches blocks together whose pages are all in use.
  Id add(Address address, const std::vector<BlockId>& blocks, std::uint32_t arena);
  /// Removes a stitched block.
  void remove(Id id);
  /// All stitched blocks.
  std::vector<Id> all() const;

  /// The blocks stitched over a block.
  const std::vector<Id>& over(BlockId id) const;
  /// The number of bytes that a block shares with a stitched block.
  Bytes common(Id id, BlockId block) const;
  /// The block at this address, which must have something stitched over it.
  BlockId block_at(Address address) const;

  // Updates after the table split `tail` into `front` and what `tail` is now.
  void was_split(BlockId front, BlockId tail);
  /// Call before `id` absorbs its neighbour `gone`.
  void will_merge(BlockId id, BlockId gone);
  /// Call after that.
  void was_merged(BlockId id);
  /// Call before a block is removed.
  void will_remove(BlockId id);

 private:
  std::vector<Id>& list_of(BlockId id);
  void enter(BlockId id);

  const BlockTable& table_;
  std::vector<Stitched> stitched_;
  std::vector<Id> vacant_;
  std::vector<std::vector<Id>> over_;      // by block
  std::map<Address, BlockId> by_address_;  // blocks with something stitched over them
};

struct GmlakeSettings {
  Bytes frag_limit = 512_MiB;
  double reuse_limit = 10;
  unsigned level = 0;  // 0 to 2
};

class Gmlake {
 public:
  static constexpr Bytes page = 2_MiB;

  /// `device` must outlive the policy.
  Gmlake(const Prepared& heap, const GmlakeSettings& settings, SimulatedDevice& device);
  Gmlake(const Gmlake&) = delete;
  Gmlake& operator=(const Gmlake&) = delete;
  ~Gmlake() = default;

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void free(std::uint32_t slot, Bytes /*requested*/) {
    use_.allocated -= extent_of(slot).size;
    complete(slot);
  }
  void free_requested(std::uint32_t slot, Bytes requested);
  void free_completed(std::uint32_t slot, Bytes requested);
  void empty_cache();

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return largest_.largest(); }
  const DriverCalls& driver_calls() const { return calls_; }
  Extent extent_of(std::uint32_t slot) const;
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      const Arena& arena = arenas_[block.arena];
      if (block.state == BlockState::free)
        visit(FreeBlock{.size = block.size, .pool = arena.pool, .stream = arena.stream});
    });
  }
  /// Visits the memory behind an allocation, which differs from its extent if it is stitched.
  void for_each_piece(std::uint32_t slot, auto&& visit) const {
    const Taken& taken = taken_[slot];
    if (taken.stitched == Stitches::none) return visit(extent_of(slot));
    Bytes left = stitches_[taken.stitched].taken;
    for (const Extent& piece : stitches_[taken.stitched].pieces) {
      if (left == 0_B) break;
      const Bytes size = std::min(piece.size, left);
      visit(Extent{piece.address, size});
      left -= size;
    }
  }

 private:
  /// Interchangeable free blocks: of one pool, size class and stream.
  struct Arena {
    BestFitIndex free;
    bool small = false;
    PoolId pool = PoolId::default_pool;
    StreamId stream = StreamId::default_stream;
    std::map<std::pair<Bytes, Address>, Stitches::Id> stitched;  // those whose pages are all free
  };

  /// The memory of a slot: a block or a stitched block.
  struct Taken {
    BlockId block = BlockId::none;
    Stitches::Id stitched = Stitches::none;
    bool pending = false;

    bool is_nothing() const { return block == BlockId::none && stitched == Stitches::none; }
  };

  static Bytes rounded(Bytes requested);
  Taken take(std::uint32_t arena, Bytes size);
  Taken take_new_segment(std::uint32_t arena, Bytes size);
  Taken take_stitched(std::uint32_t arena, Bytes size);
  Taken stitch(std::uint32_t arena, Bytes size, unsigned attempt);
  BlockId cut(BlockId id, Bytes size);
  void use_range(Extent range);
  void free_range(Extent range);
  void complete(std::uint32_t slot);
  void wait_for_pending();
  void release_everything();
  void release(BlockId id);
  void unmap_unused_stitches();
  void unmap(Stitches::Id id);

  BlockId split(BlockId id, Bytes size);
  void mark_used(BlockId id);
  void make_free(BlockId id);
  void put_free(BlockId id);
  void take_out(BlockId id);
  Address reserve_addresses(Bytes size) { return std::exchange(end_, end_ + size); }

  GmlakeSettings settings_;
  SimulatedDevice& device_;
  HeapUse use_;
  DriverCalls calls_;
  BlockTable table_;
  Stitches stitches_{table_};
  std::vector<Arena> arenas_;
  Maxima largest_;                                                   // free block, by arena
  std::vector<std::array<std::uint32_t, 2>> arenas_of_pool_stream_;  // large, small
  std::vector<Taken> taken_;                                         // by slot
  std::uint64_t pending_ = 0;                                        // number of slots awaiting free
  Bytes stitched_bytes_;
  Address end_{page.count};  // end of the addresses reserved so far
};

PolicyEntry gmlake_entry();

}  // namespace memreel
