// SPDX-License-Identifier: Apache-2.0
// torch.native: PyTorch's CUDA caching allocator.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11; formats/torch/release.h has what differs in other
// releases since 2.1.
//
// - A request is rounded (formats/torch/settings.h) and looks at the free blocks of its pool, its size class (small: up
//   to 1 MiB) and its stream: the smallest that fits; ties go to the lowest address. Memory never moves between these,
//   and neighbours merge only inside a segment.
// - A block of an expandable segment that could grow counts with the size it can grow to (torch_expandable.h).
// - That one candidate is refused if it is at least max_split_size and the request is smaller, or if both are and it
//   exceeds the request by max_non_split_rounding or more; blocks of expandable segments too, except with PR #193400.
// - The front of the block is handed out. The remainder becomes a free block if it has at least 512 B (small, or with
//   expandable_segments) or more than 1 MiB (large, and only if the request is below max_split_size); otherwise, and
//   always in a pool with no_split, it goes with the allocation.
// - Without a candidate, in this order: collect garbage if a threshold is set and the program has set a memory
//   fraction; ask the device for a segment (with expandable_segments: for memory to map, though the limit is checked as
//   if it were a segment); release oversize blocks of this stream if max_split_size is set, and ask again; wait for all
//   pending blocks, release everything unused, and ask again (PR #191302 would search the free blocks first); fail. The
//   last resort is left out for private pools, that is during captures and inside use_mem_pool.
// - Releasing covers every unused segment and every unused run of an expandable segment. Garbage collection and the
//   release of oversize blocks skip expandable segments.
// - A freed block becomes reusable, and merges with free neighbours, when the device is done with it.
// - A private pool can be laid out again as it was at an earlier moment (setCheckpointPoolState): its free segments are
//   then cut into the blocks they had, in order, whatever the rules above would choose.
// - A heap that was in use when its recording began is taken over as it was: segments, free blocks and all, unless
//   expandable_segments differs from the recorded setting. How old its free blocks are, and which are older than
//   others, is not recorded: unless found out otherwise (TorchInitialAges), all are as old as the recording, and were
//   made in order of their addresses, except that the rest of a segment is older than what was split off it.
// - empty_cache does what the last resort does. Private pools keep their segments until the pool itself is gone; then
//   releasing includes them, after the default pool, in the order in which they ended.
#pragma once

#include <algorithm>
#include <array>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/policies/torch_expandable.h"
#include "analyzer/replay/policies/torch_pools.h"
#include "analyzer/replay/policies/torch_resume.h"
#include "formats/torch/settings.h"

namespace memreel {

/// Observes the allocator's decisions. This one does nothing and costs nothing. `small`: in the small pools.
struct NoTorchObserver {
  void segment_reserved(bool /*small*/, Bytes /*size*/) {}
  void segment_released(bool /*small*/, Bytes /*size*/) {}
  void mapped(const MappedBytes& /*memory*/) {}
  void unmapped(const MappedBytes& /*memory*/) {}
  /// `taken` bytes of a block were handed out and `left` bytes of it stay free. `was_split`: the block was not its
  /// whole segment. Blocks of expandable segments never count as split.
  void allocated(std::uint32_t /*slot*/, bool /*small*/, Bytes /*requested*/, Bytes /*taken*/, Bytes /*left*/,
                 bool /*was_split*/) {}
  void freed(bool /*small*/, Bytes /*size*/) {}
  /// A block of `size` bytes became free and absorbed `merged` free neighbours of `merged_bytes` in total. `is_split`:
  /// it is still not its whole segment.
  void completed(std::uint32_t /*slot*/, bool /*small*/, Bytes /*size*/, std::uint64_t /*merged*/,
                 Bytes /*merged_bytes*/, bool /*is_split*/) {}
  void retried() {}
  void failed() {}
  /// A block of the state in which the recording began; `requested` if it is in use.
  void held(std::uint32_t /*slot*/, bool /*small*/, const Block& /*block*/, Bytes /*requested*/) {}
};

/// `Tie`: which of several free blocks of equal size is taken (TorchRelease::TieBreak).
template <class Observer = NoTorchObserver, class Tie = LowestFirst>
class TorchNative {
 public:
  using Arena = TorchArena<Tie>;

  /// `device` must outlive the policy.
  TorchNative(const Prepared& heap, const TorchSettings& settings, Device& device, Observer observer = {})
      : settings_(settings),
        divides_(settings.divides()),
        least_rest_{settings.least_rest(false), settings.least_rest(true), TorchSettings::unlimited},
        device_(device),
        observer_(std::move(observer)),
        collects_garbage_(settings.garbage_collection_threshold > 0 && device.capacity().has_value()),
        pools_(heap, collects_garbage_, settings.leaves_exact() ? 0 : TorchSettings::min_block_log2),
        table_(pools_.table()),
        expandable_(pools_, device),
        block_of_(heap.slot_count + 1, BlockId::none),
        as_recorded_(settings.expandable == TorchSettings::recorded(heap.settings).expandable) {}

  bool resume(const InitialState& initial) {
    return as_recorded_ && TorchResume<TorchNative>(initial, ages_, *this).succeeded();
  }
  /// Call before resume().
  void set_initial_ages(const TorchInitialAges& ages) { ages_ = ages; }

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
    const Bytes rounded = divides_ ? settings_.round(requested) : TorchSettings::round_to_block(requested);
    const bool small = TorchSettings::is_small(rounded);
    Arena& arena = pools_.of_pool_stream(pool_stream, small);
    if (restored_.size > 0_B) [[unlikely]] {
      if (restored_.size >= requested && requested == TorchSettings::round_to_block(requested))
        return restore_next(slot, requested);
      restored_ = {};
    }
    BlockId block = take_free(arena, rounded);
    if (block == BlockId::none) [[unlikely]]
      block = make_room(arena, rounded);
    if (block == BlockId::none) [[unlikely]] {
      observer_.failed();
      return false;
    }
    block_of_[slot] =
        hand_out(slot, block, requested, rounded, arena, splits(table_[block].size - rounded, rounded, arena));
    return true;
  }

  void free(std::uint32_t slot, Bytes /*requested*/) { make_reusable(slot, end_allocation(slot)); }

  void free_requested(std::uint32_t slot, Bytes /*requested*/) {
    table_[end_allocation(slot)].state = BlockState::pending;
    ++pending_;
  }

  void free_completed(std::uint32_t slot, Bytes /*requested*/) {
    const BlockId block = block_of_[slot];
    if (block == BlockId::none) return;  // the policy already waited for the device, before the recorded run did
    --pending_;
    make_reusable(slot, block);
  }

  void empty_cache() { release_everything(); }
  void empty_pool(std::uint32_t pool_stream) {
    const PoolId pool = pools_.pool_of(pool_stream);
    // Only for blocks of that pool: release_cached_blocks() in c10/cuda/CUDACachingAllocator.cpp.
    wait_for_pending([&](const Block& block) { return pools_.arena_of(block).pool == pool; });
    release_pool(pool);
  }
  void pool_ended(std::uint32_t pool_stream) {
    const PoolId pool = pools_.pool_of(pool_stream);
    std::erase(ended_, pool);
    ended_.push_back(pool);
  }

  void pool_restored(std::uint32_t pool_stream, Address begin, Bytes size) {
    restored_ = {};
    const BlockId id = pools_.free_at(begin);
    if (id != BlockId::none && table_[id].size >= size &&
        pools_.arena_of(table_[id]).pool == pools_.pool_of(pool_stream))
      restored_ = {.block = id, .size = size};
  }

  /// Makes room for slots beyond those of the heap.
  void resize_slots(std::uint32_t slots) { block_of_.resize(slots, BlockId::none); }

  const HeapUse& use() const { return pools_.use(); }
  const DriverCalls& driver_calls() const { return calls_; }
  Bytes largest_free() const { return pools_.largest_free(); }

  /// The slot must be allocated or awaiting free.
  const Block& block_of(std::uint32_t slot) const { return table_[block_of_[slot]]; }

  Extent extent_of(std::uint32_t slot) const {
    const Block& block = block_of(slot);
    return {block.address, block.size};
  }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state != BlockState::free) return;
      const Arena& arena = pools_.arena_of(block);
      visit(FreeBlock{.size = block.size, .pool = arena.pool, .stream = arena.stream});
    });
  }

  /// The blocks that can serve a request of this pool, stream and size, in search order.
  std::vector<BlockId> candidates(std::uint32_t pool_stream, Bytes requested) const {
    return pools_.of_pool_stream(pool_stream, TorchSettings::is_small(settings_.round(requested))).free.ordered();
  }

  /// The block of the initial state, counted from 0, whose age a block has; none if it was made later, or in releases
  /// that number no blocks.
  std::optional<std::size_t> initial_block_of(BlockId id) const {
    const std::uint64_t made = pools_.made(id);
    if (made <= before_initial_ || made > before_initial_ + initial_made_.size()) return std::nullopt;
    return initial_made_[made - before_initial_ - 1];
  }

  const BlockTable& blocks() const { return table_; }
  const std::vector<BlockId>& block_ids() const { return block_of_; }
  const TorchSettings& settings() const { return settings_; }
  const Observer& observer() const { return observer_; }

 private:
  friend class TorchResume<TorchNative>;

  [[gnu::always_inline]] BlockId take_free(Arena& arena, Bytes rounded) {
    if (collects_garbage_) pools_.count_search(arena);
    auto found = arena.free.search(rounded);
    if (!found) return BlockId::none;
    if (expandable_.used()) [[unlikely]] {
      const BlockId block =
          settings_.expandable ? expandable_.prefer_bounded(arena, found.block) : expandable_.skip(arena, found.block);
      if (block == BlockId::none) return block;
      if (block != found.block) found = arena.free.place_of(block);
    }
    if (!may_serve(table_[found.block], rounded)) return BlockId::none;
    pools_.take_out(arena, found);
    return found.block;
  }

  [[gnu::always_inline]] bool may_serve(const Block& block, Bytes rounded) const {
    if (settings_.expandable_ignores_oversize && block.expandable) [[unlikely]]
      return true;
    return settings_.may_serve(block.size, rounded);
  }

  BlockId make_room(Arena& arena, Bytes rounded) {
    if (collects_garbage_) collect_garbage();
    BlockId block = take_new(arena, rounded);
    if (block == BlockId::none && release_oversize(arena, rounded)) block = take_new(arena, rounded);
    // A request for a private pool is made during a capture or use_mem_pool: PyTorch then keeps its cache.
    if (block == BlockId::none && arena.pool == PoolId::default_pool) {
      release_everything();
      observer_.retried();
      if (settings_.search_after_release) block = take_free(arena, rounded);
      if (block == BlockId::none) block = take_new(arena, rounded);
    }
    return block;
  }

  /// Takes memory from the device.
  BlockId take_new(Arena& arena, Bytes rounded) {
    const Bytes size = settings_.segment_size(rounded);
    if (settings_.expands(arena.pool != PoolId::default_pool)) {
      if (device_.is_told_not_to_take(size)) return BlockId::none;
      const auto most = settings_.reserve.is_set() ? settings_.reserve.limit(arena.stream_handle) : std::nullopt;
      return expandable_.allocate(arena, rounded, settings_.run_size(arena.small), most,
                                  [&](const MappedBytes& memory) {
                                    calls_.map += memory.runs;
                                    pools_.use().reserved += memory.size;
                                    observer_.mapped(memory);
                                  });
    }
    const auto address = device_.reserve(size);
    if (!address) return BlockId::none;
    ++calls_.malloc;
    pools_.use().reserved += size;
    observer_.segment_reserved(arena.small, size);
    const BlockId block = table_.add(*address, size, arena.number);
    pools_.note_made(block);
    return block;
  }

  /// Hands out the front of the segment that is being laid out again. What follows it stays free until its turn.
  [[gnu::noinline]] bool restore_next(std::uint32_t slot, Bytes size) {
    const BlockId block = restored_.block;
    pools_.take_out(block);
    const bool split = table_[block].size > size;
    block_of_[slot] = hand_out(slot, block, size, size, pools_.arena_of(table_[block]), split);
    restored_.size -= size;
    return true;
  }

  BlockId hand_out(std::uint32_t slot, BlockId block, Bytes requested, Bytes rounded, const Arena& arena, bool split) {
    const bool expandable = table_[block].expandable;
    const bool was_split = !expandable && table_[block].is_split();
    const Bytes rest = table_[block].size - rounded;
    BlockId taken = block;
    if (split) {
      taken = table_.split_front(block, rounded);
      pools_.note_made(taken);
      pools_.put_free(block);
    }
    Block& result = table_[taken];
    result.state = BlockState::allocated;
    pools_.use().allocated += result.size;
    observer_.allocated(slot, arena.small, requested, result.size, split && !expandable ? rest : Bytes{}, was_split);
    return taken;
  }

  bool splits(Bytes rest, Bytes rounded, const Arena& arena) const {
    // Small requests are below any max_split_size. No &&: the branch would be unpredictable.
    return (static_cast<unsigned>(rest >= least_rest_[static_cast<std::size_t>(arena.splits)]) &
            static_cast<unsigned>(settings_.expandable || rounded < settings_.max_split_size)) != 0;
  }

  BlockId end_allocation(std::uint32_t slot) {
    const BlockId id = block_of_[slot];
    const Block& block = table_[id];
    pools_.use().allocated -= block.size;
    observer_.freed(pools_.arena_of(block).small, block.size);
    return id;
  }

  // Force-inlined: GCC does not inline it itself, and the replay is a tenth slower without.
  [[gnu::always_inline]] void make_reusable(std::uint32_t slot, BlockId id) {
    const Block& block = table_[id];
    const Bytes size = block.size;
    const std::uint64_t merged = pools_.merge_with_free_neighbours(id);
    const bool small = pools_.arena_of(block).small;
    if (block.expandable)
      observer_.completed(slot, small, size, 0, {}, false);
    else
      observer_.completed(slot, small, size, merged, block.size - size, block.is_split());
    pools_.put_free(id);
    block_of_[slot] = BlockId::none;
  }

  /// `id`: a free block that is a whole segment.
  void release(BlockId id) {
    const Block block = table_[id];
    pools_.take_out(id);
    table_.remove(id);
    pools_.use().reserved -= block.size;
    ++calls_.free;
    ++calls_.sync;  // cudaFree waits for the device
    observer_.segment_released(pools_.arena_of(block).small, block.size);
    device_.release(block.address, block.size);
  }

  bool is_whole_segment(BlockId id) const { return !table_[id].is_split() && !table_[id].expandable; }

  /// Releases one oversize block at least as large as the request, or else the largest ones until their sum is.
  bool release_oversize(const Arena& arena, Bytes rounded) {
    if (settings_.max_split_size == TorchSettings::unlimited) return false;
    const Bytes wanted = std::max(rounded, settings_.max_split_size);
    if (const BlockId block = arena.free.find(wanted); block != BlockId::none && !table_[block].expandable) {
      release(block);
      return true;
    }
    const std::vector<BlockId> blocks = arena.free.ordered();
    Bytes released;
    for (auto id = blocks.rbegin(); id != blocks.rend() && released < wanted; ++id) {
      const Bytes size = table_[*id].size;
      if (size < settings_.max_split_size) break;
      if (size >= wanted || table_[*id].expandable) continue;
      release(*id);
      released += size;
    }
    return released >= wanted;
  }

  void release_everything() {
    wait_for_pending([](const Block&) { return true; });
    for (const bool small : {false, true}) release_unused(PoolId::default_pool, small);
    for (const PoolId pool : ended_) release_pool(pool);
  }

  void release_pool(PoolId pool) {
    for (const bool small : {true, false}) release_unused(pool, small);
  }

  /// Releases segments first, then runs of expandable ones.
  void release_unused(PoolId pool, bool small) {
    std::vector<BlockId> expandable;
    // Smaller ones are neither whole segments nor have whole runs: programs empty a cache of many at every step.
    const Bytes least = std::min(settings_.run_size(small), TorchSettings::min_own_segment);
    for (const BlockId id : pools_.newly_free(pool, small, least)) {
      if (is_whole_segment(id))
        release(id);
      else if (table_[id].expandable)
        expandable.push_back(id);
    }
    for (const BlockId id : expandable)
      expandable_.release(id, [&](const MappedBytes& memory) {
        ++calls_.sync;
        calls_.unmap += memory.runs;
        pools_.use().reserved -= memory.size;
        observer_.unmapped(memory);
      });
  }

  /// `is_waited_for(block)`: whether to wait for the end of a block.
  void wait_for_pending(const auto& is_waited_for) {
    if (pending_ == 0) return;
    const std::uint64_t before = pending_;
    for (std::uint32_t slot = 0; slot < block_of_.size(); ++slot) {
      const BlockId block = block_of_[slot];
      if (block == BlockId::none || table_[block].state != BlockState::pending || !is_waited_for(table_[block]))
        continue;
      --pending_;
      make_reusable(slot, block);
    }
    if (pending_ < before) ++calls_.sync;
  }

  /// Releases blocks unused for long until less than the threshold is reserved. A block's age is the number of searches
  /// in its pool since it became free.
  void collect_garbage() {
    const Bytes threshold{static_cast<std::uint64_t>(settings_.garbage_collection_threshold *
                                                     static_cast<double>(device_.capacity()->count))};
    if (use().reserved <= threshold) return;
    const Bytes target = use().reserved - threshold;
    std::vector<BlockId> blocks;
    for (const Arena& arena : pools_.of_pool(PoolId::default_pool, false))
      for (const BlockId id : arena.free.ordered())
        if (is_whole_segment(id)) blocks.push_back(id);
    const auto age = [&](BlockId id) { return static_cast<double>(pools_.age(id)); };
    double total_age = 0;
    for (const BlockId id : blocks) total_age += age(id);
    Bytes released;
    for (bool progress = true; progress && released < target && !blocks.empty();) {
      const double limit = total_age / static_cast<double>(blocks.size());
      progress = std::erase_if(blocks, [&](BlockId id) {
                   if (age(id) < limit) return false;
                   total_age -= age(id);
                   released += table_[id].size;
                   release(id);
                   return true;
                 }) > 0;
    }
  }

  TorchSettings settings_;
  bool divides_;
  std::array<Bytes, 3> least_rest_;  // minimum remainder that becomes a block of its own: by TorchSplits
  Device& device_;
  [[no_unique_address]] Observer observer_;
  bool collects_garbage_;
  TorchPools<Tie> pools_;
  BlockTable& table_;
  TorchExpandable<Tie> expandable_;
  DriverCalls calls_;
  std::vector<BlockId> block_of_;  // by slot
  std::uint64_t pending_ = 0;      // blocks awaiting free
  struct Restored {
    BlockId block = BlockId::none;  // free
    Bytes size;                     // that the requests to come fill
  };
  Restored restored_;
  bool as_recorded_ = false;  // with respect to expandable segments
  TorchInitialAges ages_;
  std::vector<std::size_t> initial_made_;  // the blocks of the initial state, in the order of their numbers
  std::uint64_t before_initial_ = 0;       // the highest number before theirs
  std::vector<PoolId> ended_;              // private pools that are gone, the most recently named last
};

// The largest of all policies, used in many places: compiled in torch_native.cpp.
extern template class TorchPools<LowestFirst>;
extern template class TorchPools<OldestFirst>;
extern template class TorchExpandable<LowestFirst>;
extern template class TorchExpandable<OldestFirst>;
extern template class TorchResume<TorchNative<NoTorchObserver, LowestFirst>>;
extern template class TorchResume<TorchNative<NoTorchObserver, OldestFirst>>;
extern template class TorchNative<NoTorchObserver, LowestFirst>;
extern template class TorchNative<NoTorchObserver, OldestFirst>;

PolicyEntry torch_native_entry();
PolicyEntry torch_expandable_entry();
PolicyEntry torch_entry();

}  // namespace memreel
