// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/usage.h"

#include <algorithm>

#include "collector/stacks/unwind.h"

namespace memreel::agent {

void Usage::follow(const HeapState& state, const Heap& heap, std::string_view name) {
  if (index(state.heap) >= place_in_heaps_.size()) place_in_heaps_.resize(index(state.heap) + 1, none);
  std::uint32_t& place = place_in_heaps_[index(state.heap)];
  if (place == none) {
    place = static_cast<std::uint32_t>(now_.heaps.size());
    now_.heaps.push_back({.device = heap.device, .level = heap.level, .name = std::string(name)});
    parents_.push_back(heap.parent);
  }
  HeapUsage& usage = now_.heaps[place];
  usage.live = state.live;
  usage.peak = std::max(usage.peak, state.live);
  usage.reserved = state.reserved;
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
  answer_ = now_;
  for (std::size_t i = 0; i < answer_.heaps.size(); ++i) {
    HeapUsage& heap = answer_.heaps[i];
    const HeapUsage* const parent = parents_[i] != HeapId::none ? at(parents_[i]) : nullptr;
    if (heap.level == Level::framework && heap.reserved == 0_B && parent != nullptr) heap.reserved = parent->live;
  }
  if (peaks_ == Peaks::reset)
    for (HeapUsage& usage : now_.heaps) usage.peak = usage.live;
  // The querying thread may have given up meanwhile, and another have asked.
  question_.compare_exchange_strong(asked, 0, std::memory_order_acq_rel);
}

void Usage::forget() {
  now_ = {};
  parents_.clear();
  place_in_heaps_.clear();
}

void Usage::pose(std::uint64_t sequence, Peaks peaks) {
  peaks_ = peaks;
  question_.store(sequence, std::memory_order_release);
}

MemoryUsage Usage::await_answer(std::chrono::milliseconds limit) {
  constexpr std::chrono::microseconds pause{50};
  for (auto waited = pause; waited < limit; waited += pause) {
    if (question_.load(std::memory_order_acquire) == 0) return answer_;
    stacks::nap(pause);
  }
  return {};
}

}  // namespace memreel::agent
