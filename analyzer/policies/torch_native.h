// torch.native: PyTorch's CUDA caching allocator with cudaMalloc segments.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11; these rules are the same since 2.1.
//
// - A request is rounded (torch_settings.h) and looks at the free blocks of its pool, of its size class (small: up to
//   1 MiB) and of its stream: the smallest that fits, of several the one at the lowest address. Memory never moves
//   between these, and neighbours merge only inside a segment.
// - That one candidate is refused when it is of max_split_size or more and the request is not, or when both are and it
//   exceeds the request by max_non_split_rounding or more.
// - The front of the block is handed out. The rest becomes a free block when it has at least 512 B (small) or more than
//   1 MiB (large, and only when the request is below max_split_size); else it goes with the allocation.
// - Without a candidate, in this order: collect garbage if a threshold is set; ask the device for a segment; release
//   oversize blocks of this stream if max_split_size is set, and ask again; wait for all pending blocks, release every
//   segment of which nothing is used, and ask again; fail.
// - A freed block becomes reusable, and merges with free neighbours, when the device is done with it.
// - empty_cache does what the last resort does. Private pools keep their segments: they give them back only once the
//   pool itself is gone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/heap/best_fit_index.h"
#include "analyzer/heap/block_table.h"
#include "analyzer/policies/policy.h"
#include "analyzer/policies/registry.h"
#include "analyzer/policies/torch_settings.h"
#include "analyzer/replay/device.h"
#include "analyzer/replay/prepared.h"

namespace memreel {

/// Follows the allocator's decisions. This one does not and costs nothing. `small`: of the small pools.
struct NoTorchObserver {
  void segment_reserved(bool /*small*/, Bytes /*size*/) {}
  void segment_released(bool /*small*/, Bytes /*size*/) {}
  /// `taken` bytes of a block were handed out and `left` bytes of it stay free. `was_split`: the block was not the
  /// whole of its segment.
  void allocated(std::uint32_t /*slot*/, bool /*small*/, Bytes /*requested*/, Bytes /*taken*/, Bytes /*left*/,
                 bool /*was_split*/) {}
  void freed(bool /*small*/, Bytes /*size*/) {}
  /// A block of `size` bytes became free and swallowed `merged` free neighbours of `merged_bytes` together. `is_split`:
  /// it is not the whole of its segment even so.
  void completed(std::uint32_t /*slot*/, bool /*small*/, Bytes /*size*/, std::uint64_t /*merged*/,
                 Bytes /*merged_bytes*/, bool /*is_split*/) {}
  void retried() {}
  void failed() {}
};

template <class Observer = NoTorchObserver>
class TorchNative {
 public:
  /// `device` must outlive the policy.
  TorchNative(const Prepared& heap, const TorchSettings& settings, Device& device, Observer observer = {})
      : settings_(settings),
        divides_(settings.divides()),
        device_(device),
        observer_(std::move(observer)),
        collects_garbage_(settings.garbage_collection_threshold > 0 && device.capacity().has_value()),
        block_of_(heap.slot_count + 1, BlockId::none) {
    build_arenas(heap);
  }

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t lane) {
    const Bytes rounded = divides_ ? settings_.round(requested) : TorchSettings::round_to_block(requested);
    const bool small = TorchSettings::is_small(rounded);
    Arena& arena = arenas_[arenas_of_lane_[lane][small]];
    BlockId block = take_free(arena, rounded);
    if (block == BlockId::none) [[unlikely]]
      block = make_room(arena, rounded);
    if (block == BlockId::none) [[unlikely]] {
      observer_.failed();
      return false;
    }
    block_of_[slot] = hand_out(slot, block, requested, rounded, small);
    return true;
  }

  void free(std::uint32_t slot, Bytes /*requested*/) { make_reusable(slot, let_go(slot)); }

  void free_requested(std::uint32_t slot, Bytes /*requested*/) {
    table_[let_go(slot)].state = BlockState::pending;
    ++pending_;
  }

  void free_completed(std::uint32_t slot, Bytes /*requested*/) {
    const BlockId block = block_of_[slot];
    if (block == BlockId::none) return;  // the policy itself waited for the device before the recorded run did
    --pending_;
    make_reusable(slot, block);
  }

  void empty_cache() { release_everything(); }

  /// Makes room for slots beyond those of the heap.
  void resize_slots(std::uint32_t slots) { block_of_.resize(slots, BlockId::none); }

  // For slots that operations ahead of this one name.
  [[gnu::always_inline]] void prefetch_name(std::uint32_t slot) const { prefetch(&block_of_[slot]); }
  [[gnu::always_inline]] void prefetch_block(std::uint32_t slot) const { table_.prefetch_block(block_of_[slot]); }
  [[gnu::always_inline]] void prefetch_neighbours(std::uint32_t slot) const {
    table_.prefetch_neighbours(block_of_[slot]);
  }

  const HeapUse& use() const { return use_; }
  const DriverCalls& driver_calls() const { return calls_; }
  Bytes largest_free() const {
    Bytes largest;
    for (const Arena& arena : arenas_) largest = std::max(largest, arena.free.largest());
    return largest;
  }

  /// Of a slot that is allocated or pending.
  const Block& block_of(std::uint32_t slot) const { return table_[block_of_[slot]]; }

  Extent extent_of(std::uint32_t slot) const {
    const Block& block = block_of(slot);
    return {block.address, block.size};
  }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state != BlockState::free) return;
      const Arena& arena = arenas_[block.arena];
      visit(FreeBlock{.size = block.size, .pool = arena.pool, .stream = arena.stream});
    });
  }

  /// What a request of this lane and size may be served from, in the order of the search.
  std::vector<Block> candidates(std::uint32_t lane, Bytes requested) const {
    std::vector<Block> blocks;
    const bool small = TorchSettings::is_small(settings_.round(requested));
    for (const BlockId id : arenas_[arenas_of_lane_[lane][small]].free.ordered()) blocks.push_back(table_[id]);
    return blocks;
  }

  const BlockTable& blocks() const { return table_; }
  const TorchSettings& settings() const { return settings_; }
  const Observer& observer() const { return observer_; }

 private:
  static constexpr unsigned unit_log2 = 9;  // TorchSettings::min_block

  /// Free blocks that can stand in for one another: of one pool, size class and stream.
  struct Arena {
    BestFitIndex free;
    std::uint32_t number = 0;
    std::uint32_t size_class = 0;
    bool small = false;
    PoolId pool = PoolId::default_pool;
    StreamId stream = StreamId::default_stream;
  };

  void build_arenas(const Prepared& heap) {
    // The order in which segments are released: the default pool's large blocks, then its small ones, by stream handle.
    std::map<std::tuple<PoolId, bool, std::uint64_t>, std::uint32_t> by_key;
    std::map<std::uint64_t, StreamId> stream_of;
    for (const Lane& lane : heap.lanes) {
      stream_of[lane.stream_handle] = lane.stream;
      for (const bool small : {false, true}) by_key[{lane.pool, small, lane.stream_handle}] = 0;
    }
    std::map<std::pair<PoolId, bool>, std::uint32_t> size_classes;
    for (auto& [key, number] : by_key) {
      const auto& [pool, small, stream] = key;
      const auto size_class =
          size_classes.try_emplace({pool, small}, static_cast<std::uint32_t>(size_classes.size())).first->second;
      number = static_cast<std::uint32_t>(arenas_.size());
      arenas_.push_back({.free = BestFitIndex(table_, unit_log2),
                         .number = number,
                         .size_class = size_class,
                         .small = small,
                         .pool = pool,
                         .stream = stream_of[stream]});
      if (pool == PoolId::default_pool) ++default_arenas_;
      if (pool == PoolId::default_pool && !small) ++default_large_arenas_;
    }
    searches_.resize(size_classes.size());
    for (const Lane& lane : heap.lanes)
      arenas_of_lane_.push_back(
          {by_key[{lane.pool, false, lane.stream_handle}], by_key[{lane.pool, true, lane.stream_handle}]});
  }

  BlockId take_free(Arena& arena, Bytes rounded) {
    if (collects_garbage_) ++searches_[arena.size_class];
    const BlockId block = arena.free.find(rounded);
    if (block == BlockId::none) return block;
    const Bytes size = table_[block].size;
    const bool oversize = rounded >= settings_.max_split_size;
    if (!oversize && size >= settings_.max_split_size) return BlockId::none;
    if (oversize && size - rounded >= settings_.max_non_split_rounding) return BlockId::none;
    take_out(block);
    return block;
  }

  BlockId make_room(Arena& arena, Bytes rounded) {
    if (collects_garbage_) collect_garbage();
    const Bytes size = settings_.segment_size(rounded);
    auto address = device_.reserve(size);
    if (!address && release_oversize(arena, rounded)) address = device_.reserve(size);
    if (!address) {
      release_everything();
      observer_.retried();
      address = device_.reserve(size);
    }
    if (!address) return BlockId::none;
    ++calls_.malloc;
    use_.reserved += size;
    observer_.segment_reserved(arena.small, size);
    return table_.add(*address, size, arena.number);
  }

  BlockId hand_out(std::uint32_t slot, BlockId block, Bytes requested, Bytes rounded, bool small) {
    const bool was_split = table_[block].is_split();
    const Bytes rest = table_[block].size - rounded;
    const Bytes kept = small ? TorchSettings::min_block - 1_B : TorchSettings::max_small;
    const bool split = rest > kept && rounded < settings_.max_split_size;
    BlockId taken = block;
    if (split) {
      taken = table_.split_front(block, rounded);
      put_free(block);
    }
    Block& result = table_[taken];
    result.state = BlockState::allocated;
    use_.allocated += result.size;
    observer_.allocated(slot, small, requested, result.size, split ? rest : Bytes{}, was_split);
    return taken;
  }

  BlockId let_go(std::uint32_t slot) {
    const BlockId id = block_of_[slot];
    const Block& block = table_[id];
    use_.allocated -= block.size;
    observer_.freed(arenas_[block.arena].small, block.size);
    return id;
  }

  // Inlined by request: on its own GCC does not, and the replay is a tenth slower.
  [[gnu::always_inline]] void make_reusable(std::uint32_t slot, BlockId id) {
    Block& block = table_[id];
    const Bytes size = block.size;
    std::uint64_t merged = 0;
    if (block.previous != BlockId::none && table_[block.previous].state == BlockState::free) {
      take_out(block.previous);
      table_.absorb_previous(id);
      ++merged;
    }
    if (block.next != BlockId::none && table_[block.next].state == BlockState::free) {
      take_out(block.next);
      table_.absorb_next(id);
      ++merged;
    }
    observer_.completed(slot, arenas_[block.arena].small, size, merged, block.size - size, block.is_split());
    put_free(id);
    block_of_[slot] = BlockId::none;
  }

  [[gnu::always_inline]] void put_free(BlockId id) {
    Block& block = table_[id];
    block.state = BlockState::free;
    Arena& arena = arenas_[block.arena];
    arena.free.insert(id);
    use_.free += block.size;
    if (collects_garbage_) {
      if (freed_at_.size() < table_.limit()) freed_at_.resize(table_.limit());
      freed_at_[index(id)] = searches_[arena.size_class];
    }
  }

  void take_out(BlockId id) {
    const Block& block = table_[id];
    arenas_[block.arena].free.erase(id);
    use_.free -= block.size;
  }

  /// `id`: a free block that is a whole segment.
  void release(BlockId id) {
    const Block block = table_[id];
    take_out(id);
    table_.remove(id);
    use_.reserved -= block.size;
    ++calls_.free;
    ++calls_.sync;  // cudaFree waits for the device
    observer_.segment_released(arenas_[block.arena].small, block.size);
    device_.release(block.address, block.size);
  }

  /// One oversize block that is as large as the request, or the largest ones until together they are.
  bool release_oversize(const Arena& arena, Bytes rounded) {
    if (settings_.max_split_size == TorchSettings::unlimited) return false;
    const Bytes wanted = std::max(rounded, settings_.max_split_size);
    if (const BlockId block = arena.free.find(wanted); block != BlockId::none) {
      release(block);
      return true;
    }
    const std::vector<BlockId> blocks = arena.free.ordered();
    Bytes released;
    for (auto id = blocks.rbegin(); id != blocks.rend() && released < wanted; ++id) {
      const Bytes size = table_[*id].size;
      if (size < settings_.max_split_size) break;
      release(*id);
      released += size;
    }
    return released >= wanted;
  }

  void release_everything() {
    if (pending_ > 0) wait_for_pending();
    for (std::uint32_t i = 0; i < default_arenas_; ++i)
      for (const BlockId id : arenas_[i].free.ordered())
        if (!table_[id].is_split()) release(id);
  }

  void wait_for_pending() {
    ++calls_.sync;
    pending_ = 0;
    for (std::uint32_t slot = 0; slot < block_of_.size(); ++slot)
      if (block_of_[slot] != BlockId::none && table_[block_of_[slot]].state == BlockState::pending)
        make_reusable(slot, block_of_[slot]);
  }

  /// Releases what was long not used, until less than the threshold is reserved. A block's age is the number of
  /// searches in its pool since it became free.
  void collect_garbage() {
    const Bytes threshold{static_cast<std::uint64_t>(settings_.garbage_collection_threshold *
                                                     static_cast<double>(device_.capacity()->count))};
    if (use_.reserved <= threshold) return;
    const Bytes target = use_.reserved - threshold;
    std::vector<BlockId> blocks;
    for (std::uint32_t i = 0; i < default_large_arenas_; ++i)
      for (const BlockId id : arenas_[i].free.ordered())
        if (!table_[id].is_split()) blocks.push_back(id);
    if (blocks.empty()) return;
    const std::uint64_t now = searches_[arenas_[0].size_class];
    const auto age = [&](BlockId id) { return static_cast<double>(now - freed_at_[index(id)]); };
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
  Device& device_;
  [[no_unique_address]] Observer observer_;
  bool collects_garbage_;
  HeapUse use_;
  DriverCalls calls_;
  BlockTable table_;
  std::vector<BlockId> block_of_;  // by slot
  std::vector<Arena> arenas_;      // the default pool's large ones first, then its small ones, then private pools'
  std::vector<std::array<std::uint32_t, 2>> arenas_of_lane_;  // large, small
  std::uint32_t default_arenas_ = 0, default_large_arenas_ = 0;
  std::uint64_t pending_ = 0;            // blocks in that state
  std::vector<std::uint64_t> searches_;  // by size class, when garbage is collected
  std::vector<std::uint64_t> freed_at_;  // by block: the searches there had been when it became free
};

PolicyEntry torch_native_entry();

}  // namespace memreel
