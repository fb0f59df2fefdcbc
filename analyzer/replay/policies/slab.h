// SPDX-License-Identifier: Apache-2.0
// slab{classes_per_doubling=4,min=512,page=2MiB}: blocks of fixed sizes, each size with its own slabs.
//
// - A request is rounded up to a size class: `min`, and `classes_per_doubling` evenly spaced ones for every doubling.
// - A class cuts its slabs into as many blocks as fit. A slab has the fewest pages that leave at most an eighth unused;
//   this leftover is never used.
// - A request takes the lowest free block of one of its class's slabs: of those partly used, the one that became so
//   last; else the one that became empty last; else a new one. Blocks serve any stream and never merge: memory of one
//   class does not help another.
// - Empty slabs are kept until empty_cache, or until the device refuses a new slab: then all of them are released, and
//   the device is asked once more.
//
// Sources: Bonwick, "The slab allocator: an object-caching kernel memory allocator" (USENIX Summer 1994) for slabs, the
// eighth, and keeping empty ones; the spacing of the classes and the lowest block are jemalloc's. Slabs made of pages
// of device memory are this file's choice.
#pragma once

#include <algorithm>
#include <bit>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/block_table.h"

namespace memreel {

/// All are powers of two; `min` is at least a 4096th of `page` and a multiple of `classes_per_doubling`.
struct SlabSettings {
  std::uint32_t classes_per_doubling = 4;
  Bytes min = 512_B;
  Bytes page = 2_MiB;
};

class SlabPolicy {
 public:
  static constexpr bool any_addresses_do = true;

  /// `device` must outlive the policy.
  SlabPolicy(const Prepared& heap, const SlabSettings& settings, SimulatedDevice& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t /*pool_stream*/) {
    const std::uint32_t number = class_of(requested);
    if (number >= classes_.size()) [[unlikely]]
      return false;
    const std::uint32_t id = slab_with_room(number);
    if (id == no_slab) [[unlikely]]
      return false;
    Slab& slab = slabs_[id];
    const std::uint32_t block = take_lowest(slab);
    if (--slab.free == 0) leave_list(id);
    const Bytes size = classes_[number].size;
    use_.allocated += size;
    use_.free -= size;
    block_of_[slot] = {id, block};
    return true;
  }

  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes /*requested*/) { use_.allocated -= extent_of(slot).size; }
  void free_completed(std::uint32_t slot, Bytes /*requested*/);
  void empty_cache();

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const;
  const DriverCalls& driver_calls() const { return calls_; }
  Extent extent_of(std::uint32_t slot) const {
    const SlabBlock block_in = block_of_[slot];
    const Slab& slab = slabs_[block_in.slab];
    const Bytes size = classes_[slab.number].size;
    return {slab.address + size * block_in.block, size};
  }
  void for_each_free(auto&& visit) const {
    for (const Slab& slab : slabs_)
      for (std::uint32_t i = 0; i < slab.free; ++i) visit(FreeBlock{.size = classes_[slab.number].size});
  }
  /// The leftovers at the ends of slabs: reserved but unusable.
  Bytes left_over() const { return left_over_; }

 private:
  static constexpr std::uint32_t no_slab = 0xFFFF'FFFF;

  struct SizeClass {
    Bytes size;
    Bytes slab_size;
    std::uint32_t blocks = 0;       // in a slab
    std::uint32_t free_blocks = 0;  // in all slabs of the class
  };

  struct Slab {
    Address address;
    std::uint32_t number = 0;         // its class
    std::uint32_t free = 0;           // number of blocks; also 0 for a released slab
    std::uint64_t words = 0;          // which words of `bits` are nonzero
    std::vector<std::uint64_t> bits;  // free blocks
  };

  struct SlabBlock {
    std::uint32_t slab = no_slab, block = 0;
  };

  std::uint32_t class_of(Bytes requested) const;
  // The lists of a class's partly used and empty slabs.
  static std::uint32_t partial_list(std::uint32_t number) { return 2 * number; }
  static std::uint32_t empty_list(std::uint32_t number) { return 2 * number + 1; }

  std::uint32_t slab_with_room(std::uint32_t number) {
    if (!lists_.empty(partial_list(number))) return index(lists_.front(partial_list(number)));
    return open_slab(number);
  }
  /// Makes an empty slab, a new one if necessary, the class's only partly used one.
  std::uint32_t open_slab(std::uint32_t number);

  std::uint32_t take_lowest(Slab& slab) {
    const auto word = static_cast<std::uint32_t>(std::countr_zero(slab.words));
    std::uint64_t& bits = slab.bits[word];
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
    if (bits == 0) slab.words &= slab.words - 1;
    SizeClass& size_class = classes_[slab.number];
    if (--size_class.free_blocks == 0) occupied_[slab.number / 64] &= ~(std::uint64_t{1} << slab.number % 64);
    return 64 * word + bit;
  }

  void leave_list(std::uint32_t id) { lists_.erase(BlockId{id}); }
  void add_free_blocks(std::uint32_t number, std::uint32_t count);
  bool reserve(std::uint32_t number);

  SlabSettings settings_;
  SimulatedDevice& device_;
  HeapUse use_;
  DriverCalls calls_;
  Bytes left_over_;
  std::vector<SizeClass> classes_;
  std::vector<std::uint64_t> occupied_;  // classes that have free blocks
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> vacant_;  // numbers of released slabs
  FreeLists lists_;                    // of slabs
  std::vector<SlabBlock> block_of_;    // by slot
};

PolicyEntry slab_entry();

}  // namespace memreel
