// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/capacity.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/torch_rules.h"
#include "formats/model/event.h"

namespace memreel {
namespace {

constexpr std::size_t most_tries = 100;

bool repeats(const Trace& trace, const Prepared& heap, const TorchSettings& settings, std::optional<Bytes> capacity) {
  RecordedDevice device(trace, heap, capacity);
  return with_torch(heap, settings, device, [&](auto& policy, auto) {
    bool same = true;
    run_recorded(heap, heap.count(), policy, device, [&](std::size_t, bool) { return same = !device.mismatch(); });
    return same;
  });
}

/// Limits at which collection would have continued after some of the releases of a request, the largest first.
std::vector<Bytes> candidates(const Trace& trace, const Prepared& heap, const TorchSettings& settings) {
  const EventColumns& events = trace.events;
  std::vector<Bytes> limits;
  Bytes reserved, most_reserved;
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (!is_segment(events.kind[i]) || trace.tables[events.origin[i]].heap != heap.heap) continue;
    if (events.kind[i] == EventKind::segment_alloc || events.kind[i] == EventKind::segment_map) {
      reserved += events.size[i];
      most_reserved = std::max(most_reserved, reserved);
    } else {
      reserved -= std::min(reserved, events.size[i]);
      limits.push_back(settings.collected_below(reserved));
    }
  }
  std::erase_if(limits, [&](Bytes limit) { return limit <= most_reserved || limit > *heap.implied_capacity; });
  std::sort(limits.begin(), limits.end(), [](Bytes a, Bytes b) { return a > b; });
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

}  // namespace

std::optional<Bytes> recorded_capacity(const Trace& trace, const Prepared& heap, const TorchSettings& settings) {
  if (!heap.implied_capacity || settings.garbage_collection_threshold <= 0) return heap.implied_capacity;
  if (repeats(trace, heap, settings, *heap.implied_capacity)) return heap.implied_capacity;
  if (repeats(trace, heap, settings, std::nullopt)) return std::nullopt;
  const std::vector<Bytes> limits = candidates(trace, heap, settings);
  for (std::size_t i = 0; i < std::min(limits.size(), most_tries); ++i)
    if (repeats(trace, heap, settings, limits[i] - 1_B)) return limits[i] - 1_B;
  return heap.implied_capacity;
}

namespace {

/// Saturates: a damaged trace may contain any size.
Bytes sum(Bytes a, Bytes b) {
  constexpr Bytes largest{std::numeric_limits<std::uint64_t>::max()};
  return a > largest - b ? largest : a + b;
}

Bytes share(double part, Bytes whole) {
  return Bytes{static_cast<std::uint64_t>(part * static_cast<double>(whole.count))};
}

}  // namespace

void ImpliedCapacity::set(const std::map<std::string, std::string>& settings) {
  settings_ = TorchSettings::recorded(settings);
  fraction_ = TorchSettings::recorded_fraction(settings);
}

void ImpliedCapacity::see_other(EventKind kind, Bytes size, std::uint64_t value) {
  if (level_ == Level::driver) return see_driver(kind, size, value);
  if (kind == EventKind::segment_free || kind == EventKind::segment_unmap) {
    if (!burst_.running) {
      burst_.running = true;
      burst_.held_before = held_;
    }
    held_ -= std::min(size, held_);
    return;
  }
  if (kind == EventKind::segment_alloc || kind == EventKind::segment_map) {
    // Garbage collection also releases, whenever more than the threshold is reserved.
    if (burst_.running && !burst_.asked_for)
      refuse(std::max(sum(burst_.held_before, size), settings_.collected_below(burst_.held_before)));
    hold(size);
  } else if (kind == EventKind::alloc_failed) {
    see_request_fail(is_torch_ ? settings_.segment_size(settings_.round(size)) : size, free_when_failed(value));
  }
  burst_ = {.asked_for = kind == EventKind::empty_cache};
}

void ImpliedCapacity::see_driver(EventKind kind, Bytes size, std::uint64_t value) {
  if (kind == EventKind::alloc)
    hold(size);
  else if (kind == EventKind::free_requested)
    held_ -= std::min(size, held_);
  else if (kind == EventKind::alloc_failed)
    see_request_fail(size, free_when_failed(value));
}

void ImpliedCapacity::see_request_fail(Bytes needed, std::optional<Bytes> device_free) {
  refuse(sum(held_, needed));
  if (!device_free) return;
  // The device's refusal is the certain one: a fraction above what others leave never takes effect.
  by_program_ = by_program_.value_or(true) && *device_free >= needed;
  const Bytes all = sum(held_, *device_free);
  at_refusals_ = std::min(at_refusals_.value_or(all), all);
}

void ImpliedCapacity::sample(Bytes used, Bytes free) {
  device_ = std::max(device_.value_or(0_B), sum(used, free));
  at_samples_ = std::max(at_samples_.value_or(0_B), sum(held_, free));
}

void ImpliedCapacity::refuse(Bytes total) { least_refused_ = std::min(least_refused_.value_or(total), total); }

void ImpliedCapacity::hold(Bytes size) {
  held_ = sum(held_, size);
  most_held_ = std::max(most_held_, held_);
}

CapacityBounds ImpliedCapacity::bounds() const {
  CapacityBounds bounds{.least = most_held_, .device = device_, .by_program = by_program_};
  if (!by_program_ && fraction_ < 1) bounds.by_program = true;
  std::optional<Bytes> given = at_refusals_ ? at_refusals_ : at_samples_;
  if (device_ && fraction_ < 1) given = std::min(given.value_or(*device_), share(fraction_, *device_));
  bounds.by_device = given.has_value();
  if (!least_refused_) return bounds;
  const Bytes refused = *least_refused_ - std::min(1_B, *least_refused_);
  bounds.stated = given && *given <= refused;
  bounds.most = std::max(most_held_, std::min(refused, given.value_or(refused)));
  return bounds;
}

/// An event of a new heap, or one that concerns more than what a heap holds.
void ImpliedCapacities::see_other(EventKind kind, HeapId heap, const Origin& origin, Bytes size, std::uint64_t value) {
  for (auto h = static_cast<std::uint32_t>(heaps_.size()); h < tables_->heaps.size(); ++h)
    heaps_.emplace_back((*tables_)[HeapId{h}].level, is_torch(HeapId{h}));
  if (kind == EventKind::memory_info) {
    if (!samples_device(*tables_, origin)) return;
    for (std::uint32_t h = 1; h < heaps_.size(); ++h)
      if ((*tables_)[HeapId{h}].device == (*tables_)[heap].device) heaps_[h].sample(size, Bytes{value});
    return;
  }
  if (kind == EventKind::settings) {
    settings_.resize(heaps_.size());
    std::map<std::string, std::string>& settings = settings_[index(heap)];
    for (const auto& [key, text] : (*tables_)[SettingsId{static_cast<std::uint32_t>(value)}].entries)
      settings[(*tables_)[key]] = (*tables_)[text];
    heaps_[index(heap)].set(settings);
  }
  heaps_[index(heap)].see(kind, size, value);
}

bool ImpliedCapacities::is_torch(HeapId heap) const {
  const Heap& row = (*tables_)[heap];
  return row.level == Level::framework && row.device >= 0 && (*tables_)[row.name].starts_with("torch");
}

CapacityBounds ImpliedCapacities::bounds(HeapId heap) const {
  if (index(heap) >= heaps_.size()) return {};
  CapacityBounds found = heaps_[index(heap)].bounds();
  const bool sampled_driver = (*tables_)[heap].level == Level::driver && found.by_device;
  if (!is_torch(heap) && !sampled_driver) found.most.reset();
  return found;
}

std::vector<CapacityBounds> capacity_bounds(const Trace& trace) {
  ImpliedCapacities capacities(trace.tables);
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const Origin& origin = trace.tables[events.origin[i]];
    HeapId heap = origin.heap;
    if (is_free(events.kind[i]) && index(events.allocation[i]) < trace.allocation_events.size())
      heap = trace.tables[events.origin[trace.allocation_events[index(events.allocation[i])]]].heap;
    capacities.see(events.kind[i], heap, origin, events.size[i], events.address_or_value[i]);
  }
  std::vector<CapacityBounds> bounds;
  for (std::uint32_t h = 0; h < trace.tables.heaps.size(); ++h) bounds.push_back(capacities.bounds(HeapId{h}));
  return bounds;
}

DeviceModel implied_device(const Prepared& heap) {
  if (!heap.implied_capacity) return {};
  return {.kind = DeviceModel::Kind::capacity, .capacity = *heap.implied_capacity, .told = true};
}

}  // namespace memreel
