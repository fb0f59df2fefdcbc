// plan.size, plan.best{align=512,page=2MiB}: where everything would go if every lifetime were known beforehand.
//
// - The plan (analyzer/plan/plan.h) is made before the first request, of everything that the program got. A lifetime
//   lasts until the free is completed, so that memory still in use by the device is not given again. Streams make no
//   difference: the plan knows when they are done.
// - The n-th request gets the offset that the plan has for it.
// - The range grows by whole pages up to the highest end that the plan has reached, and never shrinks: its peak is that
//   of the plan rounded up to `page`. When the device has less than that in all, every request fails from the first on.
// - A request that failed when it was recorded is no part of the plan: the program went on without it. It is served
//   when a gap of the range is large enough at that moment, or the device has as much beside the range.
//
// plan.size is a greedy plan, largest first (its source: analyzer/plan/greedy.h); plan.best the best of a portfolio.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/policy.h"
#include "analyzer/engine/policy_entry.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/heap/address_index.h"
#include "analyzer/heap/block_table.h"
#include "analyzer/plan/plan.h"

namespace memreel {

/// The lifetimes of a heap's allocations, in the order of their requests. Time is counted in rows.
std::vector<plan::Buffer> buffers_of(const Prepared& heap);

class Planned {
 public:
  struct Settings {
    Bytes align = 512_B;
    Bytes page = 2_MiB;
    plan::Plan (*make)(std::span<const plan::Buffer>, const plan::Options&) = plan::plan_by_size;
    std::shared_ptr<const plan::Plan> made = nullptr;  // what `make` made of the heap before
  };

  Planned(const Prepared& heap, const Settings& settings, SimulatedDevice& device);

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void free(std::uint32_t slot, Bytes size);
  void free_requested(std::uint32_t slot, Bytes size);
  void free_completed(std::uint32_t slot, Bytes size);
  void empty_cache() {}

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return free_.largest(); }
  const DriverCalls& driver_calls() const { return calls_; }
  const Block& block_of(std::uint32_t slot) const { return table_[block_of_[slot]]; }
  Extent extent_of(std::uint32_t slot) const { return {block_of(slot).address, block_of(slot).size}; }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state == BlockState::free) visit(FreeBlock{.size = block.size});
    });
  }
  const BlockTable& blocks() const { return table_; }
  /// Null when the program alone needs more than the device has: there was nothing to plan.
  const std::shared_ptr<const plan::Plan>& plan() const { return plan_; }

 private:
  bool device_suffices() const;
  bool grow_to(Address end);
  bool would_fit(Bytes size);
  BlockId end_allocation(std::uint32_t slot);
  void make_reusable(BlockId id);
  void put_free(BlockId id);
  void take_out(BlockId id);

  Settings settings_;
  SimulatedDevice& device_;
  std::shared_ptr<const plan::Plan> plan_;
  std::size_t requests_ = 0;  // so far
  std::uint32_t retry_slot_;  // names requests that failed when they were recorded
  HeapUse use_;
  DriverCalls calls_;
  BlockTable table_;
  AddressIndex free_;  // by the end of the block: the first that ends behind an address is the one around it
  std::vector<BlockId> block_of_;
  BlockId last_ = BlockId::none;  // the block at the end of the range
};

PolicyEntry plan_size_entry();
PolicyEntry plan_best_entry();

}  // namespace memreel
