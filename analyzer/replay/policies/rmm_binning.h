// SPDX-License-Identifier: Apache-2.0
// rmm.binning{smallest=256KiB,largest=4MiB,initial=half,maximum=none,release=26.10,stream_order=first_use}: RMM's
// binning_memory_resource on a pool.
//
// Source: rmm/mr/detail/{binning_memory_resource_impl,fixed_size_memory_resource_impl,fixed_size_free_list} of RMM 26.
// The bins are those of RMM's benchmarks and examples, 2^18 to 2^22; the pool behind them is rmm_pool.h with the other
// parameters.
//
// - A request of up to `largest` gets a whole block of the smallest bin that it fits, so at least `smallest`; a larger
//   one goes to the pool. Bins are powers of two.
// - A bin has equal blocks, 128 in each chunk that it gets from the pool and never returns. It gets the first chunk
//   before the program begins, for the default stream: 992 MiB for the bins above. If one is refused, RMM throws: every
//   request fails.
// - The free blocks of a bin form a queue per stream: first freed, first reused. Which queues a request is served from:
//   rmm_pool.h.
//
// Assumed: as in rmm_pool.h.
#pragma once

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/maxima.h"
#include "analyzer/replay/policies/rmm_pool.h"

namespace memreel {

struct RmmBinningSettings {
  static constexpr std::string_view policy = "rmm.binning";
  static constexpr Bytes most = 1_GiB;  // of a bin; the minimum is RmmPoolSettings::alignment

  Bytes smallest = 256_KiB, largest = 4_MiB;
  RmmPoolSettings pool;
};

/// RMM's fixed_size_memory_resource. Its blocks are numbered.
class RmmBin {
 public:
  static constexpr std::uint32_t blocks_per_chunk = 128;

  RmmBin(Bytes size, std::uint32_t streams) : size_(size), queues_(streams), nonempty_(streams) {}

  Bytes block_size() const { return size_; }
  Bytes chunk_size() const { return size_ * blocks_per_chunk; }
  Address address_of(BlockId block) const {
    const std::uint32_t number = index(block);
    return chunks_[number / blocks_per_chunk] + size_ * (number % blocks_per_chunk);
  }
  /// The number of free blocks.
  std::uint64_t free_count() const { return free_count_; }

  void add_chunk(Address address, std::uint32_t stream);
  /// The block for a request of `stream`, or none.
  BlockId take(std::uint32_t stream);
  void put(BlockId block, std::uint32_t stream);

 private:
  /// Linked by next_.
  struct Queue {
    BlockId first = BlockId::none, last = BlockId::none;
  };

  BlockId take_first(std::uint32_t stream);

  Bytes size_;
  std::vector<Address> chunks_;
  std::vector<BlockId> next_;  // by block
  std::vector<Queue> queues_;  // by stream
  Maxima nonempty_;            // the size of a block, by stream; 0: it has none
  std::uint64_t free_count_ = 0;
};

class RmmBinning {
 public:
  RmmBinning(const Prepared& heap, const RmmBinningSettings& settings, Device& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void freed_on(std::uint32_t slot, std::uint32_t pool_stream);
  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes requested);
  void free_completed(std::uint32_t slot, Bytes requested);
  void empty_cache() {}

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const;
  const DriverCalls& driver_calls() const { return pool_.driver_calls(); }
  Extent extent_of(std::uint32_t slot) const;
  void for_each_free(auto&& visit) const {
    pool_.for_each_free(visit);
    for (const RmmBin& bin : bins_)
      for (std::uint64_t i = 0; i < bin.free_count(); ++i) visit(FreeBlock{.size = bin.block_size()});
  }

 private:
  static constexpr std::uint32_t in_pool = 0xFFFF'FFFF, nowhere = 0xFFFF'FFFE;

  /// The location of an allocation: in a bin, in the pool behind them, or nowhere because its size is 0.
  struct Piece {
    BlockId block = BlockId::none;
    std::uint32_t bin = nowhere;
    std::uint32_t stream = 0;  // of a bin's block: the stream on which it will be freed
  };

  bool add_chunk(RmmBin& bin, std::uint32_t stream);
  bool allocate_in_pool(Piece& piece, Bytes requested);
  bool allocate_in_bin(Piece& piece, Bytes requested);
  void measure();

  Bytes smallest_, largest_;
  RmmStreams streams_;
  RmmPoolHeap pool_;
  std::vector<RmmBin> bins_;  // in ascending order
  bool usable_ = true;        // every bin got its first chunk
  HeapUse use_;
  Bytes free_in_bins_;
  std::vector<Piece> pieces_;  // by slot
};

PolicyEntry rmm_binning_entry();

}  // namespace memreel
