// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/recorded_device.h"

#include <algorithm>
#include <limits>

#include "analyzer/replay/torch_rules.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

std::string event_text(EventKind kind, Address address, Bytes size) {
  return std::string(name_of(kind)) + " of " + std::to_string(size.count) + " bytes at " + hexadecimal(address.value);
}

}  // namespace

RecordedDevice::RecordedDevice(const Trace& trace, const Prepared& heap, std::optional<Bytes> capacity)
    : heap_(heap), capacity_(capacity) {
  Bytes reserved;
  const Events& events = trace.events;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const EventKind kind = events.kind(i);
    if (!is_segment(kind) || trace.tables[events.origin(i)].heap != heap.heap) continue;
    const Bytes size = events.size(i);
    segments_.push_back({.event = i, .kind = kind, .address = events.address(i), .size = size});
    elsewhere_ = std::max(elsewhere_, events.address(i) + size);
    if (kind == EventKind::segment_alloc || kind == EventKind::segment_map)
      reserved += size;
    else
      reserved -= std::min(reserved, size);
    recorded_peak_reserved_ = std::max(recorded_peak_reserved_, reserved);
  }
  elsewhere_ = Address{round_up(Bytes{elsewhere_.value}, 1_GiB).count};
}

void RecordedDevice::begin(std::size_t row) {
  row_ = row;
  const Op op = heap_.op[row];
  // Releases by empty_cache follow it; those caused by a request precede it.
  const bool causes_follow = op != Op::alloc && op != Op::alloc_failed;
  if (!causes_follow)
    until_ = heap_.event[row];
  else  // what a failed request waited for follows it here, and precedes it in the trace
    until_ = row + 1 < heap_.count() ? std::max(heap_.event[row], heap_.event[row + 1])
                                     : std::numeric_limits<std::uint32_t>::max();
}

void RecordedDevice::end() {
  const Op op = heap_.op[row_];
  // After an empty_cache, the next request's own segment events may already be next.
  if (op != Op::alloc && op != Op::alloc_failed) return;
  for (; const SegmentEvent* missed = due(); ++next_) differ(text_of(missed), "the policy did without");
}

void RecordedDevice::finish() {
  until_ = std::numeric_limits<std::uint32_t>::max();
  if (const SegmentEvent* missed = due()) differ(text_of(missed), "the policy did without");
}

std::optional<Address> RecordedDevice::reserve(Bytes size) {
  if (refused(size)) return std::nullopt;
  const SegmentEvent* recorded = due();
  take(size);
  if (recorded && recorded->kind == EventKind::segment_alloc && recorded->size == size) {
    ++next_;
    ++matches_;
    return recorded->address;
  }
  differ(text_of(recorded), "the policy asked for a segment of " + std::to_string(size.count) + " bytes");
  return std::exchange(elsewhere_, elsewhere_ + round_up(size, 2_MiB));
}

void RecordedDevice::release(Address address, Bytes size) {
  reserved_ -= size;
  repeats(EventKind::segment_free, address, size);
}

std::optional<Device::Addresses> RecordedDevice::reserve_addresses(Bytes least, Bytes unit) {
  if (refused({})) return std::nullopt;
  const Bytes size = unit * (BestFitIndex::max_size / unit);
  if (least > size) return std::nullopt;
  // Its first bytes are mapped first.
  const SegmentEvent* recorded = due();
  if (recorded && recorded->kind == EventKind::segment_map) return Addresses{recorded->address, size};
  differ(text_of(recorded), "the policy began a new expandable segment");
  return Addresses{std::exchange(elsewhere_, elsewhere_ + 1_GiB * 1024), size};
}

bool RecordedDevice::map(Address address, Bytes size) {
  if (refused(size)) return false;
  take(size);
  repeats(EventKind::segment_map, address, size);
  return true;
}

void RecordedDevice::unmap(Address address, Bytes size) {
  reserved_ -= size;
  repeats(EventKind::segment_unmap, address, size);
}

std::optional<Address> RecordedDevice::hold(Address recorded, Bytes size) {
  held();
  take(size);
  return recorded;
}

std::optional<Device::Addresses> RecordedDevice::hold_addresses(Address recorded, Bytes /*least*/, Bytes unit) {
  return Addresses{recorded, unit * (BestFitIndex::max_size / unit)};
}

bool RecordedDevice::hold_mapped(Address /*address*/, Bytes size) {
  held();
  take(size);
  return true;
}

void RecordedDevice::held() {
  ++next_;
  ++held_;
}

bool RecordedDevice::refused(Bytes size) const {
  if (size > BestFitIndex::max_size || reserved_ > BestFitIndex::max_size - size) return true;
  const SegmentEvent* recorded = due();
  if (!recorded) return heap_.op[row_] == Op::alloc_failed;
  return recorded->kind == EventKind::segment_free || recorded->kind == EventKind::segment_unmap;
}

void RecordedDevice::take(Bytes size) {
  reserved_ += size;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

void RecordedDevice::repeats(EventKind kind, Address address, Bytes size) {
  const SegmentEvent* recorded = due();
  if (!recorded || recorded->kind != kind || recorded->address != address || recorded->size != size)
    return differ(text_of(recorded), "the policy did: " + event_text(kind, address, size),
                  kind == EventKind::segment_map ? std::nullopt : std::optional(RecordedSegment{address, size}));
  ++next_;
  ++matches_;
}

std::string RecordedDevice::text_of(const SegmentEvent* event) {
  return event ? event_text(event->kind, event->address, event->size) : "no segment event";
}

const RecordedDevice::SegmentEvent* RecordedDevice::due() const {
  return next_ < segments_.size() && segments_[next_].event < until_ ? &segments_[next_] : nullptr;
}

void RecordedDevice::differ(std::string expected, std::string happened, std::optional<RecordedSegment> released) {
  if (mismatch_) return;
  const SegmentEvent* recorded = due();
  const bool was_released =
      recorded && (recorded->kind == EventKind::segment_free || recorded->kind == EventKind::segment_unmap);
  mismatch_ = {
      .event = recorded ? recorded->event : heap_.event[row_],
      .expected = std::move(expected),
      .happened = std::move(happened),
      .position = next_,
      .recorded = was_released ? std::optional(RecordedSegment{recorded->address, recorded->size}) : std::nullopt,
      .ours = released};
}

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
  const Events& events = trace.events;
  std::vector<Bytes> limits;
  Bytes reserved, most_reserved;
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (!is_segment(events.kind(i)) || trace.tables[events.origin(i)].heap != heap.heap) continue;
    if (events.kind(i) == EventKind::segment_alloc || events.kind(i) == EventKind::segment_map) {
      reserved += events.size(i);
      most_reserved = std::max(most_reserved, reserved);
    } else {
      reserved -= std::min(reserved, events.size(i));
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
    heaps_.emplace_back((*tables_)[HeapId{h}].level, is_torch_heap(*tables_, HeapId{h}));
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

CapacityBounds ImpliedCapacities::bounds(HeapId heap) const {
  if (index(heap) >= heaps_.size()) return {};
  CapacityBounds found = heaps_[index(heap)].bounds();
  const bool sampled_driver = (*tables_)[heap].level == Level::driver && found.by_device;
  if (!is_torch_heap(*tables_, heap) && !sampled_driver) found.most.reset();
  return found;
}

std::vector<CapacityBounds> capacity_bounds(const Trace& trace) {
  ImpliedCapacities capacities(trace.tables);
  const Events& events = trace.events;
  events.for_each<event_field::origin | event_field::allocation>([&](std::uint32_t i, const Event& event) {
    const Origin& origin = trace.tables[event.origin];
    const bool frees = is_free(event.kind) && event.allocation != AllocationId::none;
    const HeapId heap = frees ? trace.tables[events.origin_of(event.allocation)].heap : origin.heap;
    // Sizes inside of a framework's pool, which are nearly all, don't matter.
    const bool is_inside =
        (event.kind == EventKind::alloc || is_free(event.kind)) && trace.tables[heap].level != Level::driver;
    capacities.see(event.kind, heap, origin, is_inside ? 0_B : events.size(i),
                   is_inside ? 0 : events.address_or_value(i));
  });
  std::vector<CapacityBounds> bounds;
  for (std::uint32_t h = 0; h < trace.tables.heaps.size(); ++h) bounds.push_back(capacities.bounds(HeapId{h}));
  return bounds;
}

DeviceModel implied_device(const Prepared& heap) {
  if (!heap.implied_capacity) return {};
  return {.kind = DeviceModel::Kind::capacity, .capacity = *heap.implied_capacity, .told = true};
}

}  // namespace memreel
