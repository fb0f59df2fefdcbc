// SPDX-License-Identifier: Apache-2.0
// cuda.async: every request is a cudaMallocAsync, every free a cudaFreeAsync, in one pool.
//
// Source: measured on an NVIDIA H200 with driver 580 (CUDA 13.0) by tests/gpu/probe_allocators; docs/measurements.md
// has the runs. The order of reuse is that of the CUDA programming guide, section "Stream-Ordered Memory Allocator".
// The rules below reproduced every address and every size of the pool in those runs.
//
// Memory
// - A pool is one range of addresses, backed by chunks of 32 MiB. Blocks are cut to multiples of 512 B and may cross
//   chunk boundaries.
// - Free blocks are in lists: one per stream, for blocks freed there, and a common one. Blocks merge only with
//   neighbours in the same list. Every list is searched by best fit; ties go to the block that has been in the list
//   longest. The remainder of a block stays in its list.
//
// A request looks for a free block in this order:
//   1. in its own stream's list;
//   2. in the common list, among fully mapped blocks;
//   3. in other streams' lists, in the order in which the streams first allocated: a block freed before something that
//      this stream waits for (an event edge);
//   4. the same without such an edge, if the device has passed the free (opportunistic);
//   5. then everything the device has passed moves from the streams' lists to the common list, last freed first, and
//      the best fit there is taken, even if some of its chunks are unmapped;
//   6. at the end of the range, which grows; a free block there counts.
//   Unmapped chunks get the memory of idle chunks, from the highest address down (the driver remaps it), and only then
//   new memory.
//   7. If there is no new memory: as 4, with a dependency inserted by the driver (internal dependencies); otherwise the
//      request fails. The chunks found until then stay with the pool, as far as the release threshold allows.
//
// Releasing
// - When the host waits for the device or a stream, all frees then known to be complete move from the streams' lists to
//   the common list. If there were any, and more is reserved than the release threshold, idle chunks are released, from
//   the highest address down, until the threshold is met.
// - empty_cache waits for the device and releases every idle chunk (cudaMemPoolTrimTo(0)).
//
// Assumed: the device keeps up with the host, so that it has passed every free by the time of the next request; a trace
// does not say how long kernels ran. `opportunistic=false` is the other extreme, where only waits and event edges
// count. Not exact: the placement of blocks after a request failed for lack of memory (sizes and failures stay close).
#pragma once

#include <bit>
#include <set>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/heap/maxima.h"
#include "analyzer/replay/policies/block_policy.h"
#include "analyzer/replay/policies/pool_chunks.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// Settings of a stream-ordered pool, shared by the model and the real one.

struct CudaAsyncSettings {
  static constexpr Bytes never{~std::uint64_t{0}};

  /// What the pool may keep when the host waits for the device: cudaMemPoolAttrReleaseThreshold.
  Bytes release_threshold;
  bool follow_events = true;          // cudaMemPoolReuseFollowEventDependencies
  bool opportunistic = true;          // cudaMemPoolReuseAllowOpportunistic
  bool internal_dependencies = true;  // cudaMemPoolReuseAllowInternalDependencies
};

/// `spec` is completed.
CudaAsyncSettings cuda_async_settings(const PolicySpec& spec);

class CudaAsync : public BlockPolicy {
 public:
  static constexpr Bytes spacing = 512_B;

  CudaAsync(const Prepared& heap, const CudaAsyncSettings& settings, SimulatedDevice& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void free_requested(std::uint32_t slot, Bytes size);
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}  // a stream-ordered free waits for nothing
  void empty_cache();
  void device_synchronized();
  void stream_synchronized(std::uint32_t pool_stream);
  void stream_waits(std::uint32_t awaited, std::uint32_t waiting);

  Bytes largest_free() const;
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state != BlockState::free) return;
      const Bytes mapped = chunks_.mapped_bytes(block.address, block.size);
      if (mapped > 0_B) visit(FreeBlock{.size = mapped, .stream = owner_of(block)});
    });
    for (std::size_t i = 0; i < spare_; ++i) visit(FreeBlock{.size = PoolChunks::size});
  }

 private:
  /// A moment on a stream: the number of frees issued to it so far.
  using Moment = std::uint64_t;
  /// The moments that something runs after, by stream: of those that have one.
  using Known = std::vector<std::pair<std::uint32_t, Moment>>;
  /// A stream that knows of more than so many others through those it waited for keeps those it waited for itself: all
  /// that all streams know would take the square of their number.
  static constexpr std::size_t most_known = 256;

  struct StreamState {
    StreamId id = StreamId::default_stream;
    OldestFitIndex free;     // its list
    Moment now = 0;          // counts its frees
    Known known;             // what this one runs after
    std::uint32_t rank = 0;  // in the order in which streams first allocated
    bool has_allocated = false;
  };

  // Block::arena is the list of a free block, and the stream on which an allocated block will be freed.

  /// Where a block of the common list is listed.
  enum class Listed : std::uint8_t { no, whole, partly, at_end };
  struct Listing {
    Listed as = Listed::no;
    Bytes mapped;  // bytes of the block that have memory
  };

  OldestFitIndex new_index() { return {table_, std::countr_zero(spacing.count), OldestFirst(ages_)}; }
  std::uint32_t common() const { return static_cast<std::uint32_t>(streams_.size()); }
  std::optional<StreamId> owner_of(const Block& block) const {
    if (settings_.opportunistic || block.arena == common()) return std::nullopt;
    return streams_[block.arena].id;
  }

  BlockId find(std::uint32_t stream, Bytes size);
  BlockId find_ordered(std::uint32_t stream, Bytes size) const;
  BlockId find_elsewhere(std::uint32_t stream, Bytes size) const;
  BlockId find_in_common(Bytes size) const;
  BlockId take_with_memory(Bytes size);
  bool back_with_memory(Address address, Bytes size);
  BlockId take(BlockId id, Bytes size);

  void add_columns();
  void put_free(BlockId id, std::uint32_t list);
  void enlist(BlockId id, std::uint32_t list);
  void take_out(BlockId id);
  void list_in_common(BlockId id);
  void take_out_of_common(BlockId id);
  void note_lost_memory();

  bool release(std::uint32_t stream, Moment known);
  bool release_everything();
  std::size_t chunks_kept() const;
  void shrink_to(std::size_t chunks);
  void drop_spare(std::size_t chunks);
  void measure();

  CudaAsyncSettings settings_;
  SimulatedDevice& device_;
  BlockAges ages_;  // when each free block entered its list
  PoolChunks chunks_;
  std::size_t spare_ = 0;  // chunks found by a request before it failed; mapped nowhere
  std::vector<StreamState> streams_;
  std::vector<std::uint32_t> stream_of_pool_stream_;
  std::vector<std::uint32_t> allocating_;  // streams in order of first allocation
  Maxima largest_;                         // free block of each of them
  // The common list without the block at the end of the range: fully mapped blocks, and the others.
  OldestFitIndex whole_ = new_index(), partly_ = new_index();
  std::multiset<Bytes> mapped_in_partly_;  // mapped bytes of each
  Bytes largest_in_partly_;
  std::vector<Listing> listing_;  // by block
  std::vector<Moment> freed_at_;  // by block: when it was freed, on the stream whose list holds it
  BlockId last_ = BlockId::none;  // the block at the end of the range
};

PolicyEntry cuda_async_entry();

}  // namespace memreel
