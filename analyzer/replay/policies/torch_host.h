// SPDX-License-Identifier: Apache-2.0
// torch.host{pinned_max_round_threshold_mb=unlimited,pinned_max_cached_size_mb=unlimited,
// pinned_reserve_segment_size_mb=0}: PyTorch's allocator of pinned host memory.
//
// Source: ATen/core/CachingHostAllocator.h of PyTorch 2.15, which is everything except the calls to CUDA, and
// ATen/cuda/CachingHostAllocator.cpp; confirmed by histories of 2.14 and 2.15 (tests/lab). The two limits came with
// 2.13.
//
// - A request is rounded up to a power of two, unless it is above one of the limits. One for 0 bytes gets no memory.
// - Blocks are never split or merged. Free blocks are in lists, one for each pool and rounded power of two; the most
//   recently freed one that is large enough is handed out.
// - If none is large enough, CUDA is asked for exactly the rounded size (cudaHostAlloc, or memory that is then
//   registered). Nothing is released to make room: if CUDA refuses, the request fails.
// - A freed block goes to its list when the device is done with it; one above pinned_max_cached_size_mb is released.
// - empty_cache releases all free blocks, by size, and within a size the first freed first: of the default pool, then
//   of ended pools (those of destroyed CUDA graphs).
// - A reserve segment, if set, is taken with the first block, and blocks that it has room for are cut off its front, in
//   multiples of 4 KiB. What empty_cache drops of it is never used again.
//
// pinned_use_cuda_host_register, pinned_num_register_threads, pinned_use_background_threads and pinned_free_catch_all
// change timing, not what is held, and are accepted and ignored.
#pragma once

#include <bit>
#include <map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "formats/torch/settings.h"

namespace memreel {

class TorchHost {
 public:
  using Settings = TorchHostSettings;
  static constexpr bool any_addresses_do = true;

  /// `device`: the host. It must outlive the policy.
  TorchHost(const Prepared& heap, const TorchHostSettings& settings, Device& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes /*requested*/) { use_.allocated -= extent_of(slot).size; }
  void free_completed(std::uint32_t slot, Bytes requested);
  void empty_cache();
  void empty_pool(std::uint32_t /*pool_stream*/) {}  // no call does that
  void pool_ended(std::uint32_t pool_stream) { ended_.push_back(pools_[pool_stream]); }

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return free_sizes_.empty() ? Bytes{} : free_sizes_.rbegin()->first; }
  const DriverCalls& driver_calls() const { return calls_; }
  Extent extent_of(std::uint32_t slot) const { return {block_of_[slot].address, block_of_[slot].size}; }
  void for_each_free(auto&& visit) const {
    for (const auto& [place, blocks] : free_)
      for (const Block& block : blocks) visit(FreeBlock{.size = block.size, .pool = place.first});
    if (reserve_left() > 0_B) visit(FreeBlock{.size = reserve_left()});
  }

 private:
  struct Block {
    Address address;
    Bytes size;
    PoolId pool = PoolId::default_pool;
  };
  using Place = std::pair<PoolId, int>;  // and the power of two

  static int bucket_of(Bytes size) { return size <= 1_B ? 0 : static_cast<int>(std::bit_width(size.count - 1)); }
  bool in_reserve(Address address) const { return address >= reserve_begin_ && address < reserve_begin_ + reserve_; }
  Bytes reserve_left() const { return reserve_ - reserve_used_; }

  /// A block of the device, or none.
  bool get(Bytes size, Block& block);
  bool take_reserve();
  void release(const Block& block);
  void release_pool(PoolId pool);
  void count_free(Bytes size);
  void count_taken(Bytes size);

  TorchHostSettings settings_;
  Device& device_;
  HeapUse use_;
  DriverCalls calls_;
  std::vector<PoolId> pools_;                  // by pool-stream pair
  std::vector<Block> block_of_;                // by slot
  std::map<Place, std::vector<Block>> free_;   // in the order they were freed
  std::map<Bytes, std::uint64_t> free_sizes_;  // number of blocks of each size
  std::vector<PoolId> ended_;
  Address reserve_begin_;
  Bytes reserve_, reserve_used_;  // 0 until it is taken
};

PolicyEntry torch_host_entry();

}  // namespace memreel
