// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/plan/planned.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {
namespace {

/// The most that is alive at one time; saturates on overflow.
Bytes most_alive(const Prepared& heap, Bytes align) {
  constexpr Bytes endless{~std::uint64_t{0}};
  Bytes live, most;
  for (std::size_t row = 0; row < heap.count(); ++row) {
    const Bytes size = round_up(std::max(heap.size[row], 1_B), align);
    if (heap.op[row] == Op::alloc) {
      if (size > endless - live) return endless;
      live += size;
      most = std::max(most, live);
    }
    if (heap.op[row] == Op::free || heap.op[row] == Op::free_completed) live -= size;
  }
  return most;
}

/// Caches plans by heap: the search for the least capacity replays a heap many times.
class PlanCache {
 public:
  /// The same heap always has the same plan, so a concurrent caller may compute it again.
  std::shared_ptr<const plan::Plan> find(const Prepared& heap) const {
    const std::scoped_lock lock(mutex_);
    const auto found = plans_.find(&heap);
    return found == plans_.end() ? nullptr : found->second;
  }
  void add(const Prepared& heap, std::shared_ptr<const plan::Plan> plan) {
    const std::scoped_lock lock(mutex_);
    plans_[&heap] = std::move(plan);
  }

 private:
  mutable std::mutex mutex_;
  std::map<const Prepared*, std::shared_ptr<const plan::Plan>> plans_;
};

PolicyEntry entry(std::string_view name, std::string_view description, std::vector<Parameter> more,
                  Result<BoundPolicy> (*bind)(const PolicySpec&)) {
  std::vector<Parameter> parameters{
      {"align", "512", AllowedValues::power_of_two(1_B, 1_GiB), "addresses are multiples of it; at most `page`"},
      {"page", "2MiB", AllowedValues::power_of_two(1_B, 1_GiB),
       "what the plan takes from the device is a multiple of it"}};
  parameters.insert(parameters.end(), more.begin(), more.end());
  return {.info = {.name = name,
                   .description = description,
                   .parameters = std::move(parameters),
                   .needs_whole_trace = true},
          .bind = bind};
}

using Make = plan::Plan (*)(std::span<const plan::Buffer>, const plan::Options&);

Result<Planned::Settings> read_settings(const PolicySpec& spec, Make make) {
  const Bytes page = size_of(spec, "page");
  const auto align = size_within(spec, "align", 1_B, page);
  if (!align) return align.error();
  Planned::Settings settings{.options = {.align = *align}, .page = page, .make = make};
  if (spec.parameters.contains("effort")) {  // plan.best's, which searches
    settings.options.effort = number_of(spec, "effort");
    settings.options.capacity = size_or_word(spec, "capacity");
  }
  return settings;
}

template <Make make>
Result<BoundPolicy> bind(const PolicySpec& spec) {
  const Result<Planned::Settings> settings = read_settings(spec, make);
  if (!settings) return settings.error();
  const auto cache = std::make_shared<PlanCache>();
  const auto run = [settings = *settings, cache](const Prepared& heap, const RunOptions& options) {
    Planned::Settings with_plan = settings;
    with_plan.made = cache->find(heap);
    SimulatedDevice device(options.device, heap.segments, options.backing);
    Planned policy(heap, with_plan, device);
    if (!with_plan.made && policy.plan()) cache->add(heap, policy.plan());
    ReplayResult result = Replay<Planned>(heap, policy, options).run();
    result.plan = policy.plan();
    device.count_bytes(result.driver_calls);
    return result;
  };
  return BoundPolicy{.spec = spec, .unit = settings->page, .run = run};
}

}  // namespace

std::vector<plan::Buffer> buffers_of(const Prepared& heap) {
  std::vector<plan::Buffer> buffers;
  std::vector<std::uint32_t> buffer_of(heap.slot_count);
  for (std::size_t row = 0; row < heap.count(); ++row) {
    const std::uint32_t slot = heap.slot[row];
    if (heap.op[row] == Op::alloc) {
      buffer_of[slot] = static_cast<std::uint32_t>(buffers.size());
      buffers.push_back({.lower = row, .upper = heap.count(), .size = heap.size[row]});
    } else if (heap.op[row] == Op::free || heap.op[row] == Op::free_completed) {
      buffers[buffer_of[slot]].upper = row;
    }
  }
  return buffers;
}

Stretch alive_within(std::span<const plan::Buffer> buffers, plan::TimeRange time) {
  Stretch kept;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const plan::Buffer& buffer = buffers[i];
    if (buffer.lower >= time.upper || buffer.upper <= time.lower) continue;
    kept.buffers.push_back({.lower = std::max(buffer.lower, time.lower),
                            .upper = std::min(buffer.upper, time.upper),
                            .size = buffer.size});
    kept.numbers.push_back(i);
  }
  return kept;
}

Busiest busiest_of(const Prepared& heap) {
  Busiest busiest;
  Bytes alive;
  for (std::size_t row = 0; row < heap.count(); ++row) {
    if (heap.op[row] == Op::alloc) alive += heap.size[row];
    if (heap.op[row] == Op::free || heap.op[row] == Op::free_completed) alive -= heap.size[row];
    if (alive > busiest.alive) busiest = {.alive = alive, .row = row};
  }
  return busiest;
}

std::optional<plan::TimeRange> rows_of_step(std::span<const std::uint32_t> ends, std::size_t step) {
  if (step >= ends.size()) return std::nullopt;
  return plan::TimeRange{.lower = step == 0 ? 0 : ends[step - 1], .upper = ends[step]};
}

Planned::Planned(const Prepared& heap, const Settings& settings, SimulatedDevice& device)
    : settings_(settings),
      device_(device),
      plan_(settings.made),
      retry_slot_(heap.slot_count),
      block_of_(heap.slot_count + 1, BlockId::none) {
  if (plan_ || most_alive(heap, settings.options.align) > device.limit()) return;
  plan_ = std::make_shared<const plan::Plan>(settings.make(buffers_of(heap), settings.options));
}

bool Planned::allocate(std::uint32_t slot, Bytes requested, std::uint32_t /*pool_stream*/) {
  if (slot == retry_slot_) return would_fit(requested);
  const std::size_t request = requests_++;
  if (!device_suffices()) return false;
  const Bytes size = round_up(std::max(requested, 1_B), settings_.options.align);
  const Address address = Address{} + plan_->offsets[request];
  if (!grow_to(address + size)) return false;
  const BlockId around = free_.find(address + size, {});
  take_out(around);
  if (table_[around].address < address) put_free(table_.split_front(around, address - table_[around].address));
  BlockId block = around;
  if (table_[around].size > size) {
    block = table_.split_front(around, size);
    put_free(around);
  }
  table_[block].state = BlockState::allocated;
  use_.allocated += size;
  block_of_[slot] = block;
  return true;
}

void Planned::free(std::uint32_t slot, Bytes) {
  if (slot != retry_slot_) make_reusable(end_allocation(slot));
}

void Planned::free_requested(std::uint32_t slot, Bytes) { table_[end_allocation(slot)].state = BlockState::pending; }

void Planned::free_completed(std::uint32_t slot, Bytes) { make_reusable(block_of_[slot]); }

bool Planned::device_suffices() const { return plan_ && round_up(plan_->peak, settings_.page) <= device_.limit(); }

/// Grows the range to `end`.
bool Planned::grow_to(Address end) {
  const Bytes range = round_up(end - Address{}, settings_.page);
  if (range <= use_.reserved) return true;
  const Bytes more = range - use_.reserved;
  if (!device_.extend(more)) return false;
  ++calls_.map;
  if (last_ != BlockId::none && table_[last_].state == BlockState::free) {
    take_out(last_);
    table_[last_].size += more;
  } else {
    const BlockId before = last_;
    last_ = table_.add(Address{} + use_.reserved, more, 0);
    if (before != BlockId::none) table_.link(before, last_);
  }
  use_.reserved = range;
  put_free(last_);
  return true;
}

/// Reserves temporarily: releases at once.
bool Planned::would_fit(Bytes size) {
  const Bytes beside = round_up(std::max(size, 1_B), settings_.page);
  if (size <= largest_free()) return true;
  if (!device_.extend(beside)) return false;
  device_.shrink(beside);
  return true;
}

BlockId Planned::end_allocation(std::uint32_t slot) {
  use_.allocated -= block_of(slot).size;
  return block_of_[slot];
}

void Planned::make_reusable(BlockId id) {
  table_.absorb_free_neighbours(id, [&](BlockId neighbour) {
    take_out(neighbour);
    if (neighbour == last_) last_ = id;
  });
  put_free(id);
}

void Planned::put_free(BlockId id) {
  Block& block = table_[id];
  block.state = BlockState::free;
  free_.insert(block.address + block.size, block.size, id);
  use_.free += block.size;
}

void Planned::take_out(BlockId id) {
  const Block& block = table_[id];
  free_.erase(block.address + block.size, block.size);
  use_.free -= block.size;
}

PolicyEntry plan_size_entry() {
  return entry("plan.size", "offline plan, every lifetime known: largest first into the smallest gap", {},
               bind<plan::plan_by_size>);
}

PolicyEntry plan_best_entry() {
  return entry("plan.best", "offline plan: the best of many orders, of the online fits, and of a search",
               {{"effort", std::to_string(plan::Options{}.effort), AllowedValues::number(),
                 "steps that the search may take; more find better plans"},
                {"capacity", "none", AllowedValues::size("1MiB", {"none"}), "the size that the search tries to reach"}},
               bind<plan::plan_best>);
}

}  // namespace memreel
