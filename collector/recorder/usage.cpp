#include "collector/recorder/usage.h"

#include <algorithm>

#include "collector/stacks/nap.h"

namespace memreel::agent {

void Usage::follow(HeapId id, const Heap& heap, Bytes live) {
  if (index(id) >= place_in_heaps_.size()) place_in_heaps_.resize(index(id) + 1, none);
  std::uint32_t& place = place_in_heaps_[index(id)];
  if (place == none) {
    place = static_cast<std::uint32_t>(heaps_.size());
    heaps_.push_back({.device = heap.device, .level = heap.level, .live = {}, .peak = {}});
  }
  HeapUsage& usage = heaps_[place];
  usage.live = live;
  usage.peak = std::max(usage.peak, live);
}

void Usage::settle(std::uint64_t counted) {
  std::uint64_t asked = question_.load(std::memory_order_acquire);
  if (asked == 0 || asked > counted) return;
  answer_ = heaps_;
  if (peaks_ == Peaks::reset)
    for (HeapUsage& usage : heaps_) usage.peak = usage.live;
  // The asker may have given up meanwhile, and another have asked.
  question_.compare_exchange_strong(asked, 0, std::memory_order_acq_rel);
}

void Usage::forget() {
  heaps_.clear();
  place_in_heaps_.clear();
}

void Usage::pose(std::uint64_t sequence, Peaks peaks) {
  peaks_ = peaks;
  question_.store(sequence, std::memory_order_release);
}

std::vector<HeapUsage> Usage::await_answer(std::chrono::milliseconds limit) {
  constexpr std::chrono::microseconds pause{50};
  for (auto waited = pause; waited < limit; waited += pause) {
    if (question_.load(std::memory_order_acquire) == 0) return answer_;
    stacks::nap(pause);
  }
  return {};
}

}  // namespace memreel::agent
