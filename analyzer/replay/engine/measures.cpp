// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/engine/measures.h"

namespace memreel {

void AddressStability::served(std::size_t row, Bytes requested, Address address) {
  while (next_ < step_ends_.size() && step_ends_[next_] <= row) end_step();
  if (next_ == 0 || next_ == step_ends_.size()) return;
  std::vector<Address>& now = now_[requested.count];
  if (next_ > 1) {
    ++compared_;
    const auto before = before_.find(requested.count);
    if (before != before_.end() && now.size() < before->second.size() && before->second[now.size()] == address) ++same_;
  }
  now.push_back(address);
}

std::optional<double> AddressStability::share() const {
  if (compared_ == 0) return std::nullopt;
  return static_cast<double>(same_) / static_cast<double>(compared_);
}

void AddressStability::end_step() {
  ++next_;
  std::swap(before_, now_);
  now_.clear();
}

void Measures::fold(const Measures& later, std::span<const std::uint32_t> events) {
  live.see(later.live.value, events[later.live.at]);
  allocated.see(later.allocated.value, events[later.allocated.at]);
  const HeapUse at_later_peak{
      .allocated = later.allocated_at_reserved_peak, .reserved = later.reserved.value, .free = {}};
  see_reserved(at_later_peak, later.live_at_reserved_peak, events[later.reserved.at]);
  external_fragmentation = std::max(external_fragmentation, later.external_fragmentation);
}

ReplayState::ReplayState(const Prepared& heap, const RunOptions& options)
    : heap_(heap),
      options_(options),
      failed_(heap.slot_count),
      addresses_(heap.step_ends),
      row_count_(options.rows != nullptr ? options.rows->row_count(heap.heap) : heap.count()),
      stretch_count_(std::clamp<std::size_t>(options.series_points, 1, std::max<std::size_t>(row_count_, 1))) {}

ReplayState::~ReplayState() = default;

void ReplayState::note_resumed(const HeapUse& use) {
  rows_held_ = heap_.initial->rows;
  const std::uint32_t event = heap_.initial->last_event;
  result_.resumed = true;
  live_ = heap_.initial->live;
  all_ = {.live = {live_, event},
          .allocated = {use.allocated, event},
          .reserved = {use.reserved, event},
          .live_at_reserved_peak = live_,
          .allocated_at_reserved_peak = use.allocated};
}

void ReplayState::add_to_series(const Measures& measures, std::uint32_t event) {
  if (result_.series.size() == stretch_) result_.series.push_back({.first_event = event});
  SeriesPoint& point = result_.series.back();
  point.live_max = std::max(point.live_max, measures.live.value);
  point.allocated_max = std::max(point.allocated_max, measures.allocated.value);
  point.reserved_max = std::max(point.reserved_max, measures.reserved.value);
  point.external_fragmentation_max = std::max(point.external_fragmentation_max, measures.external_fragmentation);
}

void ReplayState::note_failure(std::size_t row, const HeapUse& use, Bytes largest_free) {
  ++result_.failed_allocations;
  if (options_.stop_at_failure) stopped_ = true;
  if (result_.failed_events.size() < ReplayResult::most_failed_events)
    result_.failed_events.push_back(piece_->event[row]);
  if (result_.first_failure) return;
  result_.first_failure = {.event = piece_->event[row],
                           .requested = piece_->size[row],
                           .live = live_,
                           .reserved = use.reserved,
                           .capacity = options_.device.capacity,
                           .free = use.free,
                           .largest_free = largest_free};
}

void ReplayState::finish(const HeapUse& use, const DriverCalls& calls, bool places) {
  result_.heap = heap_.heap;
  result_.device = heap_.device;
  result_.device_model = options_.device;
  result_.events = row_count_;
  result_.peak_live = all_.live.value;
  result_.peak_live_event = all_.live.at;
  result_.peak_allocated = all_.allocated.value;
  result_.peak_allocated_event = all_.allocated.at;
  result_.peak_reserved = all_.reserved.value;
  result_.peak_reserved_event = all_.reserved.at;
  result_.end_reserved = use.reserved;
  if (all_.reserved.value.count > 0)
    result_.fragmentation_at_peak =
        1 - static_cast<double>(all_.allocated_at_reserved_peak.count) / static_cast<double>(all_.reserved.value.count);
  if (all_.allocated_at_reserved_peak.count > 0)
    result_.internal_waste = 1 - static_cast<double>(all_.live_at_reserved_peak.count) /
                                     static_cast<double>(all_.allocated_at_reserved_peak.count);
  result_.external_fragmentation_max = all_.external_fragmentation;
  if (places && options_.placement_metrics) {
    result_.free_memory = free_.found();
    result_.address_stability = addresses_.share();
  }
  result_.driver_calls = calls;
}

}  // namespace memreel
