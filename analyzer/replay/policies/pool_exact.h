// SPDX-License-Identifier: Apache-2.0
// pool.exact{behind=torch.native}: a pool of exact-size objects in front of an allocator, as people write by hand.
//
// - A request is rounded up to 512 B. If the pool holds a block of exactly this size, obtained by the same stream in
//   the same memory pool, the most recently freed one is reused; otherwise the request goes to the underlying
//   allocator.
// - A freed block is kept once the device is done with it. The underlying allocator does not learn of it.
// - If the underlying allocator fails, everything kept is returned to it and it is asked once more. empty_cache also
//   returns everything, and then reaches the underlying allocator.
//
// Source: none; this is a definition. `behind`: torch.native or cuda.malloc, with their defaults.
#pragma once

#include <algorithm>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "formats/model/flat_map.h"

namespace memreel {

/// A policy that can back a pool, which holds more allocations than the program does.
template <class P>
concept PolicyBehind = PlacingPolicy<P> && requires(P& policy, std::uint32_t slots) {
  policy.resize_slots(slots);  // for numbers below `slots`, at least as many as before
};

template <PolicyBehind Behind>
class ExactPool {
 public:
  static constexpr Bytes alignment = 512_B;

  template <class Settings>
  ExactPool(const Prepared& heap, const Settings& behind, SimulatedDevice& device)
      : pool_streams_(heap.pool_streams), behind_(heap, behind, device), object_of_(heap.slot_count + 1) {
    measure();
  }

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
    const Bytes size = round_up(std::max(requested, 1_B), alignment);
    const std::uint32_t bin = bin_of(size, pool_stream);
    std::uint32_t object = take_kept(bin);
    if (object == none) object = get(bin);
    if (object == none) return false;
    object_of_[slot] = object;
    use_.allocated += behind_.extent_of(object).size;
    measure();
    return true;
  }

  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes /*requested*/) { use_.allocated -= extent_of(slot).size; }
  void free_completed(std::uint32_t slot, Bytes /*requested*/) {
    keep(object_of_[slot]);
    measure();
  }
  void empty_cache() {
    give_back_all();
    behind_.empty_cache();
    measure();
  }

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return std::max(behind_.largest_free(), kept_.largest()); }
  const DriverCalls& driver_calls() const { return behind_.driver_calls(); }
  Extent extent_of(std::uint32_t slot) const { return behind_.extent_of(object_of_[slot]); }
  void for_each_free(auto&& visit) const {
    behind_.for_each_free(visit);
    kept_blocks_.for_each([&](const Block& block) {
      const PoolStream& pool_stream = pool_streams_[bins_[bin_of_object_[block.arena]].pool_stream];
      visit(FreeBlock{.size = block.size, .pool = pool_stream.pool, .stream = pool_stream.stream});
    });
  }
  const Behind& behind() const { return behind_; }

 private:
  static constexpr std::uint32_t none = absent;

  /// Interchangeable objects.
  struct Bin {
    Bytes size;
    std::uint32_t pool_stream = 0;
    std::vector<BlockId> kept;  // in the order they were freed
  };

  struct Key {
    Bytes size;
    std::uint32_t pool_stream = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::uint64_t operator()(const Key& key) const { return mix_bits(key.size.count + key.pool_stream); }
  };

  std::uint32_t bin_of(Bytes size, std::uint32_t pool_stream) {
    const std::uint32_t known = bin_by_key_.find({size, pool_stream});
    if (known != none) return known;
    const auto bin = static_cast<std::uint32_t>(bins_.size());
    bins_.push_back({.size = size, .pool_stream = pool_stream});
    bin_by_key_.put({size, pool_stream}, bin);
    return bin;
  }

  /// The most recently freed object of a bin, or none.
  std::uint32_t take_kept(std::uint32_t bin) {
    if (bins_[bin].kept.empty()) return none;
    const BlockId block = bins_[bin].kept.back();
    bins_[bin].kept.pop_back();
    return forget(block);
  }

  /// A new object from the underlying allocator, or none.
  std::uint32_t get(std::uint32_t bin) {
    const std::uint32_t object = take_number();
    bin_of_object_[object] = bin;
    const auto served = [&] { return behind_.allocate(object, bins_[bin].size, bins_[bin].pool_stream); };
    if (served()) return object;
    if (kept_bytes_ > 0_B) {
      give_back_all();
      if (served()) return object;
    }
    unused_numbers_.push_back(object);
    measure();
    return none;
  }

  void keep(std::uint32_t object) {
    const Extent extent = behind_.extent_of(object);
    const BlockId block = kept_blocks_.add(extent.address, extent.size, object);
    kept_.insert(block);
    kept_bytes_ += extent.size;
    bins_[bin_of_object_[object]].kept.push_back(block);
  }

  /// Forgets a block that its bin no longer lists, and returns its object.
  std::uint32_t forget(BlockId block) {
    const std::uint32_t object = kept_blocks_[block].arena;
    kept_bytes_ -= kept_blocks_[block].size;
    kept_.erase(block);
    kept_blocks_.remove(block);
    return object;
  }

  void give_back_all() {
    for (Bin& bin : bins_) {
      for (const BlockId block : bin.kept) {
        const std::uint32_t object = forget(block);
        behind_.free(object, bin.size);
        unused_numbers_.push_back(object);
      }
      bin.kept.clear();
    }
  }

  std::uint32_t take_number() {
    if (unused_numbers_.empty()) {
      const auto count = static_cast<std::uint32_t>(bin_of_object_.size());
      const std::uint32_t more = std::max<std::uint32_t>(count, 64);
      bin_of_object_.resize(count + more);
      behind_.resize_slots(count + more);
      for (std::uint32_t i = more; i > 0; --i) unused_numbers_.push_back(count + i - 1);
    }
    const std::uint32_t number = unused_numbers_.back();
    unused_numbers_.pop_back();
    return number;
  }

  void measure() {
    use_.reserved = behind_.use().reserved;
    use_.free = behind_.use().free + kept_bytes_;
  }

  std::vector<PoolStream> pool_streams_;
  Behind behind_;
  HeapUse use_;
  std::vector<std::uint32_t> object_of_;  // by slot: its number in the underlying allocator
  std::vector<std::uint32_t> bin_of_object_;
  std::vector<std::uint32_t> unused_numbers_;  // of objects
  std::vector<Bin> bins_;
  FlatMap<Key, KeyHash> bin_by_key_;
  BlockTable kept_blocks_;  // Block::arena is the object
  BestFitIndex kept_{kept_blocks_, 8};
  Bytes kept_bytes_;
};

PolicyEntry pool_exact_entry();

}  // namespace memreel
