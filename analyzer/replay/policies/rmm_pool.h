// SPDX-License-Identifier: Apache-2.0
// rmm.pool{initial=half,maximum=none,release=26.10,stream_order=first_use}: RMM's pool_memory_resource on cudaMalloc.
//
// Source: rmm/mr/detail/{pool_memory_resource_impl,coalescing_free_list,stream_ordered_memory_resource} of RMM 25.12 to
// 26.12, whose rules differ only in `reclaim`.
//
// - A request is rounded up to 256 B; one for 0 bytes gets no memory. It takes the front of the smallest free block
//   that fits, cut exactly; ties go to the lowest address. Which free blocks it sees: see above.
// - A freed block goes into the list of the stream that freed it and merges with its neighbours in that list, but never
//   beyond the piece of memory that was obtained from upstream in one call.
// - If no block fits, the pool grows by the larger of the request and its current size; with a `maximum`, by the larger
//   of the request and half of what is left, but never beyond it. If the device refuses, it tries half as much, and so
//   on down to the request.
// - It never shrinks; empty_cache has no effect. `reclaim`: as of August 2026 (rmm #2470) a pool at its maximum first
//   releases unused pieces, the lowest first, until the request has room. The default follows `release`: on from 26.10.
// - `initial` is obtained before the program begins, for the default stream. `half`: of the device's memory, RMM's own
//   default in Python; nothing if the device has no limit. If it is refused, RMM throws: every request fails.
//
// Assumed:
// - In histories of other allocators, a free is on the recorded stream, usually that of the allocation.
// - Memory that the device still uses when the program frees it (free_requested before free_completed) is freed when
//   the device is done with it: RMM has no such state; a program on RMM would have to wait.
// - RMM halves to the byte; here half is rounded down to 256 B.
// - What cudaMalloc adds to the size of a piece is not counted.
#pragma once

#include <map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/heap/maxima.h"

namespace memreel {

// The common part of RMM's stream-ordered resources: a list of free blocks per stream, and the order in which a request
// of one stream searches them.
//
// Source: rmm/mr/detail/stream_ordered_memory_resource.hpp of RMM 26. (In 2020, 0.17 still merged a list on its first
// hit.)
//
// - The default stream has two names, 0 and 1 (cudaStreamLegacy), and one list.
// - A request searches the list of its own stream; then each other one, where its stream waits for the event of the
//   last free, and where the remainder of a cut block stays; then it merges the others into its own, one by one, and
//   searches again after each; then the resource grows.
// - RMM visits the other lists in the order of their event handles, which differs from run to run: `stream_order`, the
//   handles of streams separated by slashes, "0/3/1/2". `first_use`, and the order of streams that it does not name:
//   the order in which the streams were first used, an assumption.
// - The thread-local lists of the per-thread default stream (2) are one list here: a history does not say how many
//   threads RMM would have seen on it.

/// Stream handles, in the order in which their lists are visited.
using RmmStreamOrder = std::vector<std::uint64_t>;

/// Parses the parameter stream_order. Errors: neither first_use nor up to 64 handles.
Result<RmmStreamOrder> rmm_stream_order(const PolicySpec& spec);

/// Numbers the streams of a heap in the order in which they are visited; RMM ignores pools.
class RmmStreams {
 public:
  /// `has_initial`: the resource adds memory to the default stream's list before the program begins.
  RmmStreams(const std::vector<PoolStream>& pool_streams, const RmmStreamOrder& order, bool has_initial) {
    std::map<std::uint64_t, std::uint32_t> numbers;
    const auto number_of = [&](std::uint64_t handle) {
      constexpr std::uint64_t legacy = 1;
      return numbers.try_emplace(handle == 0 ? legacy : handle, static_cast<std::uint32_t>(numbers.size()))
          .first->second;
    };
    for (const std::uint64_t handle : order) number_of(handle);
    if (has_initial) default_ = number_of(0);
    for (const PoolStream& pool_stream : pool_streams) of_pool_stream_.push_back(number_of(pool_stream.stream_handle));
    count_ = static_cast<std::uint32_t>(numbers.size());
  }

  std::uint32_t operator[](std::uint32_t pool_stream) const { return of_pool_stream_[pool_stream]; }
  std::uint32_t count() const { return count_; }
  /// The default stream's number, if there is initial memory.
  std::uint32_t default_stream() const { return default_; }

 private:
  std::vector<std::uint32_t> of_pool_stream_;
  std::uint32_t count_ = 0, default_ = 0;
};

/// Looks for a block of `size` bytes, not 0, for a request of stream `own`, one of `count`. `find(stream)` searches the
/// list of a stream and returns a block or none; `merge(own, other)` moves the contents of another list into its own.
/// `largest`: the largest block of each stream's list. Streams without any are passed over: there may be a hundred
/// thousand.
template <class Find, class Merge>
BlockId find_in_streams(std::uint32_t own, std::uint32_t count, Bytes size, const Maxima& largest, const Find& find,
                        const Merge& merge) {
  if (const BlockId block = find(own); block != BlockId::none) [[likely]]
    return block;
  for (std::size_t other = largest.first(size); other < count; other = largest.first(size, other + 1)) {
    if (other == own) continue;
    if (const BlockId block = find(static_cast<std::uint32_t>(other)); block != BlockId::none) return block;
  }
  for (std::size_t other = largest.first(1_B); other < count; other = largest.first(1_B, other + 1)) {
    if (other == own) continue;
    merge(own, static_cast<std::uint32_t>(other));
    if (const BlockId block = find(own); block != BlockId::none) return block;
  }
  return BlockId::none;
}

struct RmmPoolSettings {
  static constexpr Bytes alignment = 256_B;

  std::optional<Bytes> initial;  // none: half of the device
  std::optional<Bytes> maximum;
  bool reclaim = true;
  RmmStreamOrder stream_order;

  /// The parameters of these resources.
  static std::vector<Parameter> parameters();
  /// From these.
  static Result<RmmPoolSettings> of(const PolicySpec& spec);

  Bytes initial_on(const Device& device) const;
};

/// A size in whole RMM units, or `word`.
AllowedValues rmm_size(std::string_view word);
/// None if it is `word`.
Result<std::optional<Bytes>> rmm_size_parameter(const PolicySpec& spec, const std::string& parameter,
                                                std::string_view word);

/// The pool itself, in terms of blocks. rmm.binning also puts its bins on it.
class RmmPoolHeap {
 public:
  static constexpr Bytes alignment = RmmPoolSettings::alignment;

  /// Initial memory goes to the default stream of `streams`. `device` must outlive the pool.
  RmmPoolHeap(const RmmStreams& streams, const RmmPoolSettings& settings, Device& device);

  /// Whether it got its initial memory.
  bool usable() const { return usable_; }

  /// A block of `size` bytes, a nonzero multiple of `alignment`; none on failure.
  BlockId allocate(Bytes size, std::uint32_t stream) {
    if (!usable_) [[unlikely]]
      return BlockId::none;
    const auto find = [&](std::uint32_t in) { return list_of(in).free.find(size); };
    BlockId block = find_in_streams(stream, streams(), size, largest_, find,
                                    [&](auto own, auto other) { merge_lists(own, other); });
    if (block == BlockId::none) [[unlikely]]
      block = grow(size, stream);
    if (block == BlockId::none) [[unlikely]]
      return block;
    take_out(block);
    if (table_[block].size > size) {
      const BlockId front = table_.split_front(block, size);
      put_free(block);
      block = front;
    }
    Block& taken = table_[block];
    taken.state = BlockState::allocated;
    taken.arena = stream;
    use_.allocated += size;
    return block;
  }

  /// The program will free the block on a different stream than that of its request.
  void freed_on(BlockId id, std::uint32_t stream) { table_[id].arena = stream; }
  /// The program frees a block; free() must follow.
  void end_allocation(BlockId id) {
    table_[id].state = BlockState::pending;
    use_.allocated -= table_[id].size;
  }
  /// Makes a freed block reusable.
  void free(BlockId id) {
    table_[id].arena = list_of_[table_[id].arena];
    coalesce(id);
    put_free(id);
  }

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return largest_.largest(); }
  const DriverCalls& driver_calls() const { return calls_; }
  const BlockTable& blocks() const { return table_; }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state == BlockState::free) visit(FreeBlock{.size = block.size});
    });
  }

 private:
  // Block::arena is the list of a free block; for others, the stream on which it will be freed.

  struct FreeList {
    BestFitIndex free;
    std::uint32_t stream = 0;  // whose it is
    std::uint64_t count = 0;
  };

  std::uint32_t streams() const { return static_cast<std::uint32_t>(list_of_.size()); }
  FreeList& list_of(std::uint32_t stream) { return lists_[list_of_[stream]]; }

  // Both are force-inlined: GCC does not inline them itself, and the replay is slower without.

  /// Merges a block that is in no list with its neighbours in its future list.
  [[gnu::always_inline]] void coalesce(BlockId id) {
    const auto joins = [list = table_[id].arena](const Block& near) {
      return near.state == BlockState::free && near.arena == list;
    };
    table_.absorb_neighbours(id, joins, [&](BlockId neighbour) { take_out(neighbour); });
  }

  [[gnu::always_inline]] void put_free(BlockId id) {
    Block& block = table_[id];
    block.state = BlockState::free;
    FreeList& list = lists_[block.arena];
    list.free.insert(id);
    ++list.count;
    largest_.set(list.stream, list.free.largest());
    use_.free += block.size;
  }

  void take_out(BlockId id) {
    const Block& block = table_[id];
    FreeList& list = lists_[block.arena];
    list.free.erase(id);
    --list.count;
    largest_.set(list.stream, list.free.largest());
    use_.free -= block.size;
  }

  void merge_lists(std::uint32_t own, std::uint32_t other);
  Bytes size_to_grow(Bytes size) const;
  BlockId grow(Bytes size, std::uint32_t stream);
  BlockId expand(Bytes most, Bytes least, std::uint32_t stream);
  void reclaim(Bytes size, std::uint32_t stream);

  Device& device_;
  HeapUse use_;
  DriverCalls calls_;
  BlockTable table_;
  std::optional<Bytes> maximum_;
  bool reclaims_ = false;
  bool usable_ = true;
  std::vector<FreeList> lists_;
  std::vector<std::uint32_t> list_of_;  // by stream; a permutation, because merging swaps lists
  Maxima largest_;                      // free block, by stream
};

class RmmPool {
 public:
  using Settings = RmmPoolSettings;

  RmmPool(const Prepared& heap, const RmmPoolSettings& settings, Device& device)
      : streams_(heap.pool_streams, settings.stream_order, settings.initial_on(device) > 0_B),
        pool_(streams_, settings, device),
        block_of_(heap.slot_count + 1, BlockId::none) {}

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
    if (requested == 0_B) [[unlikely]] {
      block_of_[slot] = BlockId::none;
      return true;
    }
    const BlockId block = pool_.allocate(round_up(requested, RmmPoolHeap::alignment), streams_[pool_stream]);
    if (block == BlockId::none) [[unlikely]]
      return false;
    block_of_[slot] = block;
    return true;
  }

  void freed_on(std::uint32_t slot, std::uint32_t pool_stream) {
    if (block_of_[slot] != BlockId::none) pool_.freed_on(block_of_[slot], streams_[pool_stream]);
  }
  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes /*requested*/) {
    if (block_of_[slot] != BlockId::none) pool_.end_allocation(block_of_[slot]);
  }
  void free_completed(std::uint32_t slot, Bytes /*requested*/) {
    if (block_of_[slot] != BlockId::none) pool_.free(block_of_[slot]);
  }
  void empty_cache() {}

  const HeapUse& use() const { return pool_.use(); }
  Bytes largest_free() const { return pool_.largest_free(); }
  const DriverCalls& driver_calls() const { return pool_.driver_calls(); }
  const Block& block_of(std::uint32_t slot) const { return blocks()[block_of_[slot]]; }
  Extent extent_of(std::uint32_t slot) const {
    if (block_of_[slot] == BlockId::none) return {};
    return {block_of(slot).address, block_of(slot).size};
  }
  void for_each_free(auto&& visit) const { pool_.for_each_free(visit); }
  const BlockTable& blocks() const { return pool_.blocks(); }
  const std::vector<BlockId>& block_ids() const { return block_of_; }

 private:
  RmmStreams streams_;
  RmmPoolHeap pool_;
  std::vector<BlockId> block_of_;  // by slot
};

PolicyEntry rmm_pool_entry();

}  // namespace memreel
