// tf.bfc: the "best fit with coalescing" allocator of TensorFlow, XLA and JAX. ort.arena is made of the same rules.
//
// Source: xla/tsl/framework/bfc_allocator.{h,cc} of openxla/xla (September 2026); tested against JAX 0.11.2
// (docs/policies.md).
//
// - A request is rounded up to 256 B and gets the smallest free chunk that fits, of several the one at the lowest
//   address. (The allocator keeps 21 bins by size, each ordered by size and address, and searches from the request's
//   bin upward for the first chunk that fits. A chunk in an earlier bin is smaller than the request, and bins don't
//   overlap: the bins speed up the search and don't change its result.)
// - The chunk is split when it has at least twice the request, or when the rest has at least `largest_rest`. Otherwise
//   the whole chunk is handed out. The allocation is its front.
// - Without a fitting chunk the pool is extended by a region. Growing, the size of the next region begins at 2 MiB and
//   doubles until it covers the request; when it need not double for that it doubles afterwards, so that the next one
//   is larger. It never exceeds what is left of the limit. A device that refuses is asked for 0.9 times as much again
//   and again, as long as that covers the request (the arithmetic is that of 32-bit floats). It gives whole pages: of
//   2 MiB where XLA maps virtual memory. Without growth there is one region, as large as the limit, taken at the first
//   request.
// - If that fails, and garbage_collection is set, all regions of which nothing is used are given back, provided that
//   they and what is left of the limit could cover the request; then the pool is extended once more.
// - A freed chunk merges at once with its free neighbours, but not across regions. With coalesce_regions a region that
//   begins where another ends becomes part of it: sub-allocators that map virtual memory support it, those on
//   cuMemAlloc don't.
// - spatial_partitioning (XLA's since June 2026, when it preallocates): the free chunk at the end of the region, the
//   gap, is the last choice, however well it fits. Requests for collective memory come from the other end of the gap;
//   no trace tells which these are, and they are not modelled. Where the device refused a region of the whole limit
//   there is more than one, and the gap is at the end of any: an assumption.
// - Frees are in the order of the host: memory is reusable as soon as the program frees it. Work that uses it
//   next is on the same stream, and where a buffer is used on others the framework holds it until they are done. A
//   recorded completion is therefore no event here.
//
// Not modelled: a failed request that waits up to 10 s for another thread to free something (here it fails), and chunks
// that are held back by a counter of the device's progress (TPU). A request for nothing, which gets no memory, takes
// 256 B here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/policy.h"
#include "analyzer/engine/policy_entry.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/heap/best_fit_index.h"
#include "analyzer/heap/block_table.h"
#include "analyzer/policies/bfc_settings.h"
#include "analyzer/policies/block_policy.h"

namespace memreel {

class Bfc : public BlockPolicy {
 public:
  static constexpr bool serves_any_pool_stream = true;  // free memory serves whoever asks

  /// `device` must outlive the policy.
  Bfc(const Prepared& heap, const BfcSettings& settings, Device& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t /*pool_stream*/) {
    const Bytes size = round_up(std::max(requested, 1_B), BfcSettings::unit);
    BlockId chunk = find(size);
    if (chunk == BlockId::none) [[unlikely]]
      chunk = make_room(size);
    if (chunk == BlockId::none) [[unlikely]]
      return false;
    take_out(chunk);
    const Bytes rest = table_[chunk].size - size;
    if (rest >= size || rest >= split_limit_) {
      const BlockId front = table_.split_front(chunk, size);
      put_free(chunk);
      chunk = front;
    }
    Block& block = table_[chunk];
    block.state = BlockState::allocated;
    use_.allocated += block.size;
    block_of_[slot] = chunk;
    return true;
  }

  void free(std::uint32_t slot, Bytes /*requested*/) {
    const BlockId id = block_of_[slot];
    use_.allocated -= table_[id].size;
    table_.absorb_free_neighbours(id, [&](BlockId neighbour) { take_out(neighbour); });
    put_free(id);
  }
  void free_requested(std::uint32_t slot, Bytes requested) { free(slot, requested); }
  void free_completed(std::uint32_t /*slot*/, Bytes /*requested*/) {}
  void empty_cache();

  Bytes largest_free() const {
    return gap_ == BlockId::none ? free_.largest() : std::max(free_.largest(), table_[gap_].size);
  }

  /// The free chunks in the order of the search.
  std::vector<Block> candidates() const;

 private:
  static constexpr unsigned unit_log2 = 8;

  BlockId find(Bytes size) const {
    const BlockId chunk = free_.find(size);
    if (chunk == BlockId::none && gap_ != BlockId::none && table_[gap_].size >= size) return gap_;
    return chunk;
  }

  void put_free(BlockId id) {
    Block& block = table_[id];
    block.state = BlockState::free;
    use_.free += block.size;
    if (settings_.spatial_partitioning && block.next == BlockId::none && gap_ == BlockId::none)
      gap_ = id;
    else
      free_.insert(id);
  }

  void take_out(BlockId id) {
    use_.free -= table_[id].size;
    if (id == gap_)
      gap_ = BlockId::none;
    else
      free_.erase(id);
  }

  BlockId make_room(Bytes size);
  bool extend(Bytes size);
  void grow_next_region();
  void add_region(Address address, Bytes size);
  BlockId last_chunk_before(Address address) const;
  bool collect_garbage(Bytes size);
  std::vector<BlockId> free_regions() const;
  void release(BlockId region);

  BfcSettings settings_;
  Device& device_;
  Bytes limit_;
  Bytes split_limit_;
  Bytes next_region_;
  BestFitIndex free_{table_, unit_log2};
  BlockId gap_ = BlockId::none;          // spatial_partitioning: the free chunk at the end of the region, not in free_
  std::optional<Address> first_region_;  // where the first region lies: ort.arena never gives it back
};

PolicyEntry tf_bfc_entry();
PolicyEntry tf_growth_entry();
PolicyEntry jax_default_entry();
PolicyEntry jax_growth_entry();

}  // namespace memreel
