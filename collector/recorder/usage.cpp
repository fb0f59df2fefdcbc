// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/usage.h"

#include <algorithm>
#include <iterator>

#include "collector/stacks/nap.h"

namespace memreel::agent {

void Usage::follow(const HeapState& state, const Heap& heap, std::string_view name) {
  if (index(state.heap) >= place_in_heaps_.size()) place_in_heaps_.resize(index(state.heap) + 1, none);
  std::uint32_t& place = place_in_heaps_[index(state.heap)];
  if (place == none) {
    place = static_cast<std::uint32_t>(now_.heaps.size());
    now_.heaps.push_back({.device = heap.device, .level = heap.level, .name = std::string(name)});
    parents_.push_back(heap.parent);
    const HeapUsage* const parent = heap.parent != HeapId::none ? at(heap.parent) : nullptr;
    are_nested_.push_back(parent != nullptr && parent->level == Level::framework);
  }
  HeapUsage& usage = now_.heaps[place];
  const HeapUsage before{.level = usage.level, .name = {}, .live = usage.live, .reserved = usage.reserved};
  usage.live = state.live;
  usage.peak = std::max(usage.peak, state.live);
  usage.reserved = state.reserved;
  follow_device(before, usage, are_nested_[place]);
}

void Usage::follow_device(const HeapUsage& before, const HeapUsage& now, bool is_nested) {
  auto known = std::ranges::find(now_.requested, now.device, &RequestedUsage::device);
  if (known == now_.requested.end()) {
    now_.requested.push_back({.device = now.device, .live = {}, .peak = {}});
    parts_.emplace_back();
    known = std::prev(now_.requested.end());
  }
  Parts& parts = parts_[static_cast<std::size_t>(known - now_.requested.begin())];
  // A pool without segments has its allocations of its parent.
  const auto taken = [](const HeapUsage& pool) {
    if (pool.level == Level::driver) return 0_B;
    return pool.reserved > 0_B ? pool.reserved : pool.live;
  };
  const bool becomes_segment = parts.last == Parts::Last::gave && taken(now) > taken(before);
  const bool was_segment = parts.last == Parts::Last::returned && now.live < before.live;
  if (!becomes_segment && !was_segment) known->peak = std::max(known->peak, known->live);
  parts.last = taken(now) < taken(before) ? Parts::Last::returned
               : now.live > before.live   ? Parts::Last::gave
                                          : Parts::Last::settled;
  if (now.level == Level::driver) {
    parts.driver = parts.driver + now.live - before.live;
  } else {
    const auto change = [](Bytes from, Bytes to) {
      return static_cast<std::int64_t>(to.count) - static_cast<std::int64_t>(from.count);
    };
    parts.of_pools += change(before.live, now.live);
    if (is_nested)
      parts.of_pools -= change(taken(before), taken(now));
    else
      parts.in_pools = parts.in_pools + taken(now) - taken(before);
    parts.has_torch |= is_torch_name(now.name);
  }
  const Bytes outside = parts.has_torch ? 0_B : parts.driver - std::min(parts.driver, parts.in_pools);
  const std::int64_t live = std::max<std::int64_t>(0, parts.of_pools + static_cast<std::int64_t>(outside.count));
  known->live = Bytes{static_cast<std::uint64_t>(live)};
}

void Usage::sample(const DeviceUsage& device) {
  const auto known = std::ranges::find(now_.devices, device.device, &DeviceUsage::device);
  if (known != now_.devices.end())
    *known = device;
  else
    now_.devices.push_back(device);
}

const HeapUsage* Usage::at(HeapId heap) const {
  const bool known = index(heap) < place_in_heaps_.size() && place_in_heaps_[index(heap)] != none;
  return known ? &now_.heaps[place_in_heaps_[index(heap)]] : nullptr;
}

void Usage::settle(std::uint64_t counted) {
  std::uint64_t asked = question_.load(std::memory_order_acquire);
  if (asked == 0 || asked > counted) return;
  for (RequestedUsage& usage : now_.requested) usage.peak = std::max(usage.peak, usage.live);
  answer_ = now_;
  for (std::size_t i = 0; i < answer_.heaps.size(); ++i) {
    HeapUsage& heap = answer_.heaps[i];
    const HeapUsage* const parent = parents_[i] != HeapId::none ? at(parents_[i]) : nullptr;
    if (heap.level == Level::framework && heap.reserved == 0_B && parent != nullptr) heap.reserved = parent->live;
  }
  if (peaks_ == Peaks::reset) {
    for (HeapUsage& usage : now_.heaps) usage.peak = usage.live;
    for (RequestedUsage& usage : now_.requested) usage.peak = usage.live;
  }
  // The querying thread may have given up meanwhile, and another have asked.
  question_.compare_exchange_strong(asked, 0, std::memory_order_acq_rel);
}

void Usage::forget() {
  now_ = {};
  parents_.clear();
  are_nested_.clear();
  parts_.clear();
  place_in_heaps_.clear();
}

void Usage::pose(std::uint64_t sequence, Peaks peaks) {
  peaks_ = peaks;
  question_.store(sequence, std::memory_order_release);
}

MemoryUsage Usage::await_answer(std::chrono::milliseconds limit) {
  const auto is_answered = [&] { return question_.load(std::memory_order_acquire) == 0; };
  return stacks::nap_until(is_answered, limit) ? answer_ : MemoryUsage{};
}

}  // namespace memreel::agent
