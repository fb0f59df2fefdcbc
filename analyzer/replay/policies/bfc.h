// SPDX-License-Identifier: Apache-2.0
// tf.bfc: the "best fit with coalescing" allocator of TensorFlow, XLA and JAX. ort.arena uses the same rules.
//
// Source: xla/tsl/framework/bfc_allocator.{h,cc} of openxla/xla (September 2026); tested against JAX 0.11.2
// (docs/policies.md).
//
// - A request is rounded up to 256 B and gets the smallest free chunk that fits; ties go to the lowest address. (The
//   allocator keeps 21 bins by size, each ordered by size and address, and searches from the request's bin upward for
//   the first chunk that fits. A chunk in an earlier bin is smaller than the request, and bins don't overlap: they
//   speed up the search but don't change its result.)
// - The chunk is split if it is at least twice the request, or if the remainder is at least `largest_rest`. Otherwise
//   the whole chunk is handed out. The allocation takes the front.
// - If no chunk fits, the pool is extended by a region. With growth, the size of the next region starts at 2 MiB and
//   doubles until it covers the request; if it covers the request without doubling, it doubles afterwards, so that the
//   next region is larger. It never exceeds what is left of the limit. If the device refuses, the size is multiplied by
//   0.9 and retried for as long as it covers the request (in 32-bit float arithmetic). The device gives whole pages: of
//   2 MiB where XLA maps virtual memory. Without growth there is a single region of the size of the limit, taken at the
//   first request.
// - If that fails and garbage_collection is set, all entirely free regions are released, provided that they and what is
//   left of the limit could cover the request; then the pool is extended once more.
// - A freed chunk merges at once with its free neighbours, but not across regions. With coalesce_regions, a region that
//   begins where another ends is appended to it: sub-allocators that map virtual memory support this, those on
//   cuMemAlloc don't.
// - spatial_partitioning (XLA's since June 2026, when it preallocates): the free chunk at the end of the region, the
//   gap, is the last choice, however well it fits. Requests for collective memory come from the other end of the gap;
//   traces don't identify these, so they are not modelled. If the device refused a region of the whole limit, there are
//   several regions, and the gap is at the end of any of them: an assumption.
// - Frees follow host order: memory is reusable as soon as the program frees it. The next work that uses it is on the
//   same stream, and if a buffer is used on other streams, the framework holds it until they are done. A recorded
//   completion is therefore not an event here.
//
// Not modelled: a failed request that waits up to 10 s for another thread to free memory (here it fails), and chunks
// held back by a counter of the device's progress (TPU). A request for 0 bytes, which gets no memory, takes 256 B here.
#pragma once

#include <algorithm>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/policies/block_policy.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// Settings of a BFC allocator.

struct BfcSettings {
  static constexpr Bytes unlimited = BestFitIndex::max_size;
  static constexpr Bytes unit = 256_B;

  /// How the size of a new region is chosen.
  enum class Growth : std::uint8_t {
    none,       // a single region of the whole limit
    doubling,   // each twice as large as the previous one
    requested,  // as large as the request
  };

  Growth growth = Growth::doubling;
  Bytes first_region = 2_MiB;         // doubling: the initial size
  Bytes largest_region = unlimited;   // doubling: the final size, except for larger requests
  bool onnx_growth = false;           // doubling: ONNX Runtime's variant
  Bytes region_after_shrink = 2_MiB;  // doubling: the initial size after a shrink
  std::optional<Bytes> limit;         // total of all regions; none: `fraction` of the device's memory
  double fraction = 1;
  Bytes page = unit;                  // the device's regions are whole pages
  Bytes memory = 80_GiB;              // of the device; if the replay limits the device, that limit
  Bytes largest_rest = 128_MiB;       // a remainder of at least this size is always split off
  double fragmentation_fraction = 0;  // if above 0, largest_rest is this share of the limit
  bool garbage_collection = false;
  bool coalesce_regions = false;
  bool spatial_partitioning = false;  // without growth only
  bool shrinks = false;               // empty_cache releases free regions

  /// The limit on a device with this capacity; none: unlimited.
  Bytes limit_on(std::optional<Bytes> capacity) const;
  /// The smallest remainder that is split off a chunk of less than twice the request, for the limit `of_all`.
  Bytes split_limit(Bytes of_all) const;

  /// The parameters of tf.bfc and the presets that share them, with these settings as defaults.
  std::vector<Parameter> parameters() const;
  PolicySpec spec(std::string name) const;
  /// `spec` is completed. Errors: values that do not go together.
  static Result<BfcSettings> parse(const PolicySpec& spec);
};

/// The default settings of the allocators that memreel knows by name.
BfcSettings tf_bfc_settings();
BfcSettings tf_growth_settings();
BfcSettings jax_default_settings();
BfcSettings jax_growth_settings();

class Bfc : public BlockPolicy {
 public:
  static constexpr bool serves_any_pool_stream = true;  // free memory serves any pool and stream

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

  /// The free chunks in search order.
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

// ort.arena{extend=power_of_two}: the arena of ONNX Runtime, a descendant of TensorFlow's allocator.
//
// Source: onnxruntime/core/framework/bfc_arena.{h,cc}; tested against ONNX Runtime 1.20 to 1.32 (docs/policies.md). The
// rules are those of bfc.h, except for how regions are sized. ONNX Runtime's names of parameters are in parentheses.
// - power_of_two (arena_extend_strategy): the first region has `first` bytes (initial_chunk_size_bytes); then as in
//   tf.bfc, but the size doubles before the device is asked, whatever it answers. Once half of `largest`
//   (max_power_of_two_extend_bytes; none: before 1.16) is reached, the size becomes `largest`, also after a larger
//   request. A device that refuses is not asked for less than 8 KiB.
// - same_as_requested: a region as large as the request.
// - `largest_rest` (max_dead_bytes_per_chunk): a remainder of this size is always split off.
// - `max_mem`: total of all regions, whatever the device has.
// - empty_cache stands for the arena's shrinkage, which programs request at the end of a run: unused regions are
//   released, except the first one under power_of_two, and sizes restart at `regrowth`
//   (initial_growth_chunk_size_bytes).
//
// Not modelled: free chunks that belong to a stream, and reservations outside the arena.

PolicyEntry ort_arena_entry();

}  // namespace memreel
