// SPDX-License-Identifier: Apache-2.0
// vpmm{page=2MiB,pages=0}: OpenVM's virtual pool. Pages of device memory are moved to where a request fits, not copied.
//
// - Requests of a page and more are rounded up to pages and get a region of virtual addresses: the smallest free one of
//   their stream that fits, ties going to the lowest; else the smallest of another stream that the device is known to
//   be done with. It is cut, and the remainder stays free.
// - Otherwise the smallest gap of unused addresses that fits is taken. New pages, as many as all free regions together
//   lack, are mapped at its beginning; after them come pages of free regions, those of its own stream first, in the
//   order they were freed, and of the last only the front. Pages are mapped one by one.
// - A freed region merges with free neighbours of its stream. Addresses that pages left stay mapped until the host has
//   waited for the stream; then they are a gap again. Pages are never released; `pages` are taken at the beginning.
// - Requests below a page go to cudaMallocAsync.
//
// Source: crates/cuda-common/src/memory_manager/vm_pool.rs and docs/vpmm_spec.md of openvm-org/stark-backend. Assumed:
// a region is freed on the stream that it was allocated on; the device is done with nothing that the host has not
// waited for (this affects which pages move, not how many there are); small requests are placed as by fit.best.
#pragma once

#include <map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/heap/maxima.h"
#include "analyzer/replay/policies/fit.h"

namespace memreel {

struct VpmmSettings {
  Bytes page = 2_MiB;       // a power of two
  std::uint64_t pages = 0;  // taken at the beginning
};

class Vpmm {
 public:
  /// `device` must outlive the policy.
  Vpmm(const Prepared& heap, const VpmmSettings& settings, SimulatedDevice& device);
  Vpmm(const Vpmm&) = delete;
  Vpmm& operator=(const Vpmm&) = delete;
  ~Vpmm() = default;

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes requested);
  void free_completed(std::uint32_t slot, Bytes requested);
  void empty_cache() {}

  void device_synchronized();
  void stream_synchronized(std::uint32_t pool_stream);
  void stream_waits(std::uint32_t /*pool_stream*/, std::uint32_t /*awaited*/) {}

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const;
  const DriverCalls& driver_calls() const { return calls_; }
  Extent extent_of(std::uint32_t slot) const {
    if (region_of_[slot] == BlockId::none) return small_.extent_of(slot);
    const Block& region = table_[region_of_[slot]];
    return {region.address, region.size};
  }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state == BlockState::free) visit(FreeBlock{.size = block.size, .stream = streams_[block.arena].stream});
    });
    small_.for_each_free(visit);
  }

 private:
  // Block::arena of a block without its own pages; for all others it is the number of their stream.
  static constexpr std::uint32_t gap = 0xFFFF'FFFF;
  static constexpr std::uint32_t left = 0xFFFF'FFFE;  // pages have left, the addresses are still mapped
  static constexpr Bytes addresses_at_once{std::uint64_t{8} << 40U};

  struct Stream {
    StreamId stream;
    BestFitIndex free;
    std::map<std::uint64_t, BlockId> by_age;  // free regions by the sequence number of their free
    std::uint64_t done_before = 0;            // the device is done with frees of lower numbers
  };

  /// Addresses that pages have left.
  struct Left {
    BlockId block = BlockId::none;
    std::uint32_t stream = 0;
  };

  BlockId find(Bytes size, std::uint32_t stream);
  BlockId gather(Bytes size, std::uint32_t stream);
  BlockId take_gap(Bytes size);
  BlockId carve(BlockId& from, Bytes size);
  Bytes move_pages(BlockId from, Bytes wanted);
  BlockId oldest_of_others(std::uint32_t stream) const;
  BlockId add_free(BlockId id, std::uint32_t stream);
  void put_free(BlockId id, std::uint32_t stream, std::uint64_t age);
  void take_out(BlockId id);
  void make_gap(BlockId id);
  void unmap_left(std::uint32_t stream);
  /// Runs `action` on the allocator of small requests and adds its effects to this policy's counters.
  void with_small(auto action);

  VpmmSettings settings_;
  SimulatedDevice& device_;
  HeapUse use_;
  DriverCalls calls_;
  Bytes free_pages_;  // use_.free minus the free memory of small requests
  FitBest small_;
  BlockTable table_;  // the virtual addresses, gapless within each reservation
  BestFitIndex gaps_;
  std::vector<Stream> streams_;
  Maxima largest_;  // free region, by stream
  std::vector<std::uint32_t> stream_of_pool_stream_;
  std::vector<BlockId> region_of_;  // by slot; none: a small request
  std::vector<std::uint64_t> age_;  // by block: the sequence number of its free
  std::vector<Left> left_;
  std::uint64_t frees_ = 0;
  Address end_;  // of the addresses reserved so far
};

PolicyEntry vpmm_entry();

}  // namespace memreel
