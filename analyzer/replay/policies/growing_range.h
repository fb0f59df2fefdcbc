// SPDX-License-Identifier: Apache-2.0
// The classic fits: one contiguous range that grows at its end.
//
// - A request is rounded up to `align`, and further if Placement requires, and takes the front of the free block that
//   Placement chooses; the rest of the block stays free.
// - If no free block is large enough, the range grows at its end by the fewest whole pages that suffice, counting a
//   free block at the end.
// - A freed block merges with its free neighbours once the device is done with it, and serves any stream.
// - empty_cache releases the whole pages of the free block at the end. Nothing else ever shrinks the range.
#pragma once

#include <algorithm>
#include <concepts>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/policies/block_policy.h"

namespace memreel {

struct GrowingRangeSettings {
  Bytes align = 512_B;
  Bytes page = 2_MiB;
};

/// Chooses among the free blocks of a table. Constructed from the table and `align`.
template <class P>
concept Placement = std::constructible_from<P, BlockTable&, Bytes> &&
    requires(P& placement, const P& constant, const Block& block, BlockId id, Bytes size) {
  placement.insert(id);
  placement.erase(id);
  { placement.find(size) } -> std::same_as<BlockId>;  // at least `size` bytes, or none
  placement.placed(block);                            // an allocation was placed there
  { constant.largest() } -> std::same_as<Bytes>;
};

template <Placement Free>
class GrowingRange : public BlockPolicy {
 public:
  static constexpr bool serves_any_pool_stream = true;

  /// `more`: further constructor arguments of the placement.
  GrowingRange(const Prepared& heap, const GrowingRangeSettings& settings, SimulatedDevice& device, auto... more)
      : BlockPolicy(heap), settings_(settings), device_(device), free_(table_, settings.align, more...) {}

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t /*pool_stream*/) {
    const Bytes size = rounded(requested);
    BlockId block = free_.find(size);
    if (block == BlockId::none) [[unlikely]]
      block = grow(size);
    if (block == BlockId::none) [[unlikely]]
      return false;
    take_out(block);
    if (table_[block].size > size) {
      const BlockId front = table_.split_front(block, size);
      put_free(block);
      block = front;
    }
    table_[block].state = BlockState::allocated;
    free_.placed(table_[block]);
    use_.allocated += size;
    block_of_[slot] = block;
    return true;
  }

  void free(std::uint32_t slot, Bytes /*requested*/) { make_reusable(end_allocation(slot)); }
  void free_requested(std::uint32_t slot, Bytes /*requested*/) {
    table_[end_allocation(slot)].state = BlockState::pending;
  }
  void free_completed(std::uint32_t slot, Bytes /*requested*/) { make_reusable(block_of_[slot]); }

  void empty_cache() {
    if (last_ == BlockId::none || table_[last_].state != BlockState::free) return;
    const BlockId id = last_;
    Block& block = table_[id];
    const Bytes kept = round_up(Bytes{block.address.value}, settings_.page) - Bytes{block.address.value};
    if (kept >= block.size) return;
    take_out(id);
    const Bytes given_back = block.size - kept;
    device_.shrink(given_back);
    use_.reserved -= given_back;
    ++calls_.unmap;
    if (kept.count > 0) {
      block.size = kept;
      put_free(id);
    } else {
      last_ = block.previous;
      table_.remove(id);
    }
  }

  Bytes largest_free() const { return free_.largest(); }

 private:
  Bytes rounded(Bytes requested) const {
    const Bytes size = round_up(std::max(requested, 1_B), settings_.align);
    if constexpr (requires { free_.rounded(size); })
      return free_.rounded(size);
    else
      return size;
  }

  /// Makes the free block at the end, creating it if necessary, hold `size` bytes.
  BlockId grow(Bytes size) {
    const bool extend = last_ != BlockId::none && table_[last_].state == BlockState::free;
    const Bytes more = round_up(extend ? size - table_[last_].size : size, settings_.page);
    if (!device_.extend(more)) return BlockId::none;
    use_.reserved += more;
    ++calls_.map;
    if (extend) {
      take_out(last_);
      table_[last_].size += more;
    } else {
      const BlockId before = last_;
      last_ = table_.add(end_of(before), more, 0);
      if (before != BlockId::none) table_.link(before, last_);
    }
    put_free(last_);
    return last_;
  }

  Address end_of(BlockId id) const { return id == BlockId::none ? Address{} : table_[id].address + table_[id].size; }

  BlockId end_allocation(std::uint32_t slot) {
    use_.allocated -= table_[block_of_[slot]].size;
    return block_of_[slot];
  }

  void make_reusable(BlockId id) {
    table_.absorb_free_neighbours(id, [&](BlockId neighbour) {
      take_out(neighbour);
      if (neighbour == last_) last_ = id;
    });
    put_free(id);
  }

  void put_free(BlockId id) {
    Block& block = table_[id];
    block.state = BlockState::free;
    free_.insert(id);
    use_.free += block.size;
  }

  void take_out(BlockId id) {
    free_.erase(id);
    use_.free -= table_[id].size;
  }

  GrowingRangeSettings settings_;
  SimulatedDevice& device_;
  Free free_;
  BlockId last_ = BlockId::none;  // the block at the end of the range
};

// Registry entries for policies based on a growing range.

template <class Fit>
PolicyEntry growing_range_entry(std::string_view name, std::string_view description) {
  return {.info = {.name = name,
                   .description = description,
                   .parameters = {{"align", "512", AllowedValues::power_of_two(256_B, 1_GiB),
                                   "addresses and sizes are multiples of it; at most `page`"},
                                  {"page", "2MiB", AllowedValues::power_of_two(64_KiB, 1_GiB),
                                   "what the range grows by a multiple of"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const Bytes page = size_of(spec, "page");
            const auto align = size_within(spec, "align", 256_B, page);
            if (!align) return align.error();
            return BoundPolicy{.spec = spec,
                               .unit = page,
                               .run = [settings = GrowingRangeSettings{.align = *align, .page = page}](
                                          const Prepared& heap, const RunOptions& options) {
                                 return run_policy<Fit>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
