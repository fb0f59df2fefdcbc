// SPDX-License-Identifier: Apache-2.0
// plan.size{align=512,page=2MiB}, plan.best{align=512,page=2MiB,effort=20000000,capacity=none}: placement with every
// lifetime known in advance.
//
// - The plan (analyzer/replay/plan/plan.h) is made before the first request, from everything that the program got. A
//   lifetime lasts until the free is completed, so memory still in use by the device is not reused. Streams make no
//   difference: the plan knows when they are done.
// - The n-th request gets the offset planned for it.
// - The range grows by whole pages up to the highest end that the plan has reached, and never shrinks: its peak is that
//   of the plan rounded up to `page`. If the device has less than that in total, every request fails from the start.
// - A request that failed in the recording is not part of the plan: the program continued without it. It is served if a
//   gap of the range is large enough at that moment, or the device has that much outside the range.
//
// plan.size is a greedy plan, largest first (source: analyzer/replay/plan/first_fit.h); plan.best the best of a
// portfolio, whose search takes `effort`, and looks for a plan of at most `capacity` if there is one, else for the
// least peak.
#pragma once

#include <memory>
#include <span>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/address_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/plan/plan.h"

namespace memreel {

/// The lifetimes of a heap's allocations, in request order. Time is counted in rows.
std::vector<plan::Buffer> buffers_of(const Prepared& heap);

/// The most that is alive at once, and the first row after which it is.
struct Busiest {
  Bytes alive;
  std::size_t row = 0;
};
Busiest busiest_of(const Prepared& heap);

/// What is alive in a stretch of time, for as long as it is in it, and its numbers in the list that it is part of.
struct Stretch {
  std::vector<plan::Buffer> buffers;
  std::vector<std::size_t> numbers;
};
Stretch alive_within(std::span<const plan::Buffer> buffers, plan::TimeRange time);

/// The rows of a step of the program, the first of which is 0; none if the heap has no such step.
std::optional<plan::TimeRange> rows_of_step(std::span<const std::uint32_t> ends, std::size_t step);

class Planned {
 public:
  struct Settings {
    plan::Options options;
    Bytes page = 2_MiB;
    plan::Plan (*make)(std::span<const plan::Buffer>, const plan::Options&) = plan::plan_by_size;
    std::shared_ptr<const plan::Plan> made = nullptr;  // the earlier result of `make` for the heap
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
  /// Null if the program alone needs more than the device has, so there was nothing to plan.
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
  std::uint32_t retry_slot_;  // names requests that failed in the recording
  HeapUse use_;
  DriverCalls calls_;
  BlockTable table_;
  AddressIndex free_;  // by the end of the block: the first that ends after an address is the one around it
  std::vector<BlockId> block_of_;
  BlockId last_ = BlockId::none;  // the block at the end of the range
};

PolicyEntry plan_size_entry();
PolicyEntry plan_best_entry();

}  // namespace memreel
