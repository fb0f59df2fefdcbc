// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/recorded_device.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "formats/model/stack_text.h"

namespace memreel {
namespace {

std::string event_text(EventKind kind, Address address, Bytes size) {
  return std::string(name_of(kind)) + " of " + std::to_string(size.count) + " bytes at " + hexadecimal(address.value);
}

}  // namespace

RecordedDevice::RecordedDevice(const Trace& trace, const Prepared& heap, std::optional<Bytes> capacity)
    : heap_(heap), capacity_(capacity) {
  Bytes reserved;
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const EventKind kind = events.kind[i];
    if (!is_segment(kind) || trace.tables[events.origin[i]].heap != heap.heap) continue;
    const Bytes size = events.size[i];
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

}  // namespace memreel
