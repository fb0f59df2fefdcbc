// SPDX-License-Identifier: Apache-2.0
// cupy.pool{limit=none}: CuPy's MemoryPool, the default of `import cupy`.
//
// Source: cupy/cuda/memory.pyx of CuPy 14; 13 differs only in which of several equal chunks is taken.
//
// - A request is rounded up to 512 B; one for 0 bytes gets no memory. Each stream has an arena of free chunks and uses
//   no other. It takes the smallest chunk that fits, cut exactly: the lower part is handed out.
// - If no chunk fits, the pool asks cudaMalloc for exactly the rounded size. It never rounds up further and never
//   releases memory unprompted.
// - A freed chunk returns to the arena of the stream that requested it, whoever frees it, and merges with its
//   neighbours within the same cudaMalloc allocation.
// - When a `limit` (CUPY_GPU_MEMORY_LIMIT, MemoryPool.set_limit()) is reached, and when cudaMalloc refuses, everything
//   unused is released as by free_all_blocks(), and the request is tried once more. empty_cache means
//   free_all_blocks().
// - free_all_blocks() releases the cudaMalloc allocations that are entirely unused, in every arena.
//
// Assumed:
// - Among chunks of the smallest sufficient size, the one at the lowest address is taken. CuPy takes the one whose
//   Python object has the lowest address in host memory (14.1 and newer), or any (before), which no log predicts. A
//   recording of CuPy's own pool shows the choice afterwards, and then that chunk is taken.
// - The arenas of threads, with CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM, are one.
// - Python's garbage collector finds nothing to free when memory is short.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/policies/block_policy.h"

namespace memreel {

struct CupyPoolSettings {
  std::optional<Bytes> limit;
};

class CupyPool : public BlockPolicy {
 public:
  using Settings = CupyPoolSettings;
  static constexpr Bytes alignment = 512_B;

  CupyPool(const Prepared& heap, const CupyPoolSettings& settings, Device& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
    block_of_[slot] = BlockId::none;
    if (requested == 0_B) [[unlikely]]
      return true;
    const Bytes size = round_up(requested, alignment);
    const std::uint32_t arena = arena_of_[pool_stream];
    BlockId block = arenas_[arena].find(size);
    if (recorded_ && block != BlockId::none) block = same_at_recorded(block);
    if (block == BlockId::none) [[unlikely]]
      block = grow(size, arena);
    if (block == BlockId::none) [[unlikely]]
      return false;
    take_out(block);
    if (table_[block].size > size) {
      const BlockId front = table_.split_front(block, size);
      put_free(block);
      block = front;
    }
    table_[block].state = BlockState::allocated;
    table_[block].arena = arena;
    use_.allocated += size;
    block_of_[slot] = block;
    return true;
  }

  /// The recorded address of the next request.
  void guide(Address recorded) { recorded_ = recorded; }

  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes /*requested*/) {
    if (block_of_[slot] == BlockId::none) return;
    Block& block = table_[block_of_[slot]];
    block.state = BlockState::pending;
    use_.allocated -= block.size;
  }
  void free_completed(std::uint32_t slot, Bytes /*requested*/) {
    const BlockId id = block_of_[slot];
    if (id == BlockId::none) return;
    const auto joins = [](const Block& near) { return near.state == BlockState::free; };
    table_.absorb_neighbours(id, joins, [&](BlockId neighbour) { take_out(neighbour); });
    put_free(id);
  }
  void empty_cache() { free_all_blocks(); }

  Bytes largest_free() const {
    Bytes largest;
    for (const BestFitIndex& arena : arenas_) largest = std::max(largest, arena.largest());
    return largest;
  }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state == BlockState::free) visit(FreeBlock{.size = block.size, .stream = stream_of_[block.arena]});
    });
  }

 private:
  void put_free(BlockId id) {
    Block& block = table_[id];
    block.state = BlockState::free;
    arenas_[block.arena].insert(id);
    if (recorded_) free_at_[block.address.value] = id;
    use_.free += block.size;
  }
  void take_out(BlockId id) {
    arenas_[table_[id].arena].erase(id);
    free_at_.erase(table_[id].address.value);
    use_.free -= table_[id].size;
  }

  /// The free block at the recorded address if it is as good as `block`; otherwise `block`.
  BlockId same_at_recorded(BlockId block) const {
    const auto found = free_at_.find(recorded_->value);
    if (found == free_at_.end()) return block;
    const Block& other = table_[found->second];
    return other.size == table_[block].size && other.arena == table_[block].arena ? found->second : block;
  }

  /// A new free block of exactly `size` bytes from the device, or none.
  BlockId grow(Bytes size, std::uint32_t arena);
  std::optional<Address> ask_device(Bytes size);
  void free_all_blocks();

  Device& device_;
  std::optional<Bytes> limit_;
  std::vector<BestFitIndex> arenas_;
  std::vector<StreamId> stream_of_;                     // by arena
  std::vector<std::uint32_t> arena_of_;                 // by pool-stream pair
  std::optional<Address> recorded_;                     // of the next request, in recordings of this allocator
  std::unordered_map<std::uint64_t, BlockId> free_at_;  // only if there are recorded addresses
};

PolicyEntry cupy_pool_entry();

}  // namespace memreel
