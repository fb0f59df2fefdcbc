// SPDX-License-Identifier: Apache-2.0
#include "formats/model/live_set.h"

#include <algorithm>

namespace memreel {
namespace {

/// The end of a segment, or the last address if its size is invalid.
Address end_of(Address address, Bytes size) {
  constexpr Address last{~std::uint64_t{0}};
  return size > last - address ? last : address + size;
}

}  // namespace

HeapState& LiveSet::used(HeapId heap) {
  // Its place if every earlier heap is in use.
  const std::size_t usual = index(heap) - 1;
  if (usual < heaps_.size() && heaps_[usual].heap == heap) return heaps_[usual];
  const auto place = std::ranges::lower_bound(heaps_, heap, {}, &HeapState::heap);
  if (place != heaps_.end() && place->heap == heap) return *place;
  return *heaps_.insert(place, {.heap = heap});
}

HeapState LiveSet::state_of(HeapId heap) const {
  const auto state = std::ranges::lower_bound(heaps_, heap, {}, &HeapState::heap);
  return state != heaps_.end() && state->heap == heap ? *state : HeapState{.heap = heap, .live = {}, .reserved = {}};
}

std::uint32_t LiveSet::slot_of(AllocationId allocation) {
  if (!by_allocation_) {
    by_allocation_.emplace();
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot].allocation != AllocationId::none) by_allocation_->put(slots_[slot].allocation, slot);
  }
  return by_allocation_->find(allocation);
}

AllocationId LiveSet::at(HeapId heap, Address address) const {
  const std::uint32_t slot = by_place_.find({address, heap});
  return slot == absent ? AllocationId::none : slots_[slot].allocation;
}

void LiveSet::insert(const LiveAllocation& allocation) {
  const HeapId heap = heap_of(allocation.origin);
  if (const std::uint32_t other = by_place_.find({allocation.address, heap}); other != absent) remove(other);
  auto slot = static_cast<std::uint32_t>(slots_.size());
  if (empty_slots_.empty()) {
    slots_.push_back(allocation);
  } else {
    slot = empty_slots_.back();
    empty_slots_.pop_back();
    slots_[slot] = allocation;
  }
  by_place_.put({allocation.address, heap}, slot);
  if (by_allocation_) by_allocation_->put(allocation.allocation, slot);
  HeapState& state = used(heap);
  if (!allocation.pending) state.live += allocation.size;
}

void LiveSet::remove(std::uint32_t slot) {
  const LiveAllocation& allocation = slots_[slot];
  const HeapId heap = heap_of(allocation.origin);
  if (!allocation.pending) used(heap).live -= allocation.size;
  by_place_.erase({allocation.address, heap});
  if (by_allocation_) by_allocation_->erase(allocation.allocation);
  slots_[slot].allocation = AllocationId::none;
  empty_slots_.push_back(slot);
}

void LiveSet::free(Event& event) {
  const HeapId heap = heap_of(event.origin);
  const std::uint32_t slot =
      event.allocation == AllocationId::none ? by_place_.find({event.address, heap}) : slot_of(event.allocation);
  if (slot == absent) return;
  LiveAllocation& allocation = slots_[slot];
  event.allocation = allocation.allocation;
  event.address = allocation.address;
  event.size = allocation.size;
  const HeapId owner = heap_of(allocation.origin);
  if (event.kind == EventKind::free_completed || !(*tables_)[owner].observes_completion) {
    remove(slot);
  } else if (!allocation.pending) {
    allocation.pending = true;
    used(owner).live -= allocation.size;
  }
}

void LiveSet::cut_segments(HeapId heap, Address begin, Address end) {
  auto at = segments_.upper_bound({heap, begin});
  if (at != segments_.begin() && std::prev(at)->first.first == heap) --at;
  while (at != segments_.end() && at->first.first == heap && at->second.address < end) {
    const LiveSegment whole = at->second;
    const Address whole_end = end_of(whole.address, whole.size);
    if (whole_end <= begin) {
      ++at;
      continue;
    }
    at = segments_.erase(at);
    const auto keep = [&](Address from, Address to) {
      segments_.emplace(
          std::pair{heap, from},
          LiveSegment{.address = from, .size = to - from, .origin = whole.origin, .mapped = whole.mapped});
    };
    if (whole.address < begin) keep(whole.address, begin);
    if (end < whole_end) keep(end, whole_end);
    used(heap).reserved -= std::min(end, whole_end) - std::max(begin, whole.address);
  }
}

void LiveSet::add_segment(LiveSegment segment) {
  const HeapId heap = heap_of(segment.origin);
  segment.size = end_of(segment.address, segment.size) - segment.address;
  if (segment.size == 0_B) return;
  cut_segments(heap, segment.address, segment.address + segment.size);
  used(heap).reserved += segment.size;

  const auto merges = [&](const Segments::iterator& at) {
    return at->first.first == heap && at->second.mapped && segment.mapped && at->second.origin == segment.origin;
  };
  auto after = segments_.lower_bound({heap, segment.address});
  if (after != segments_.end() && merges(after) && after->second.address == segment.address + segment.size) {
    segment.size += after->second.size;
    after = segments_.erase(after);
  }
  if (after != segments_.begin()) {
    const auto before = std::prev(after);
    if (merges(before) && before->second.address + before->second.size == segment.address) {
      before->second.size += segment.size;
      return;
    }
  }
  segments_.emplace_hint(after, std::pair{heap, segment.address}, segment);
}

void LiveSet::apply(Event& event) {
  const HeapId heap = heap_of(event.origin);
  switch (event.kind) {
    case EventKind::alloc:
      insert({.allocation = event.allocation,
              .origin = event.origin,
              .stack = event.stack,
              .address = event.address,
              .size = event.size});
      break;
    case EventKind::free_requested:
    case EventKind::free_completed:
      free(event);
      break;
    case EventKind::segment_alloc:
    case EventKind::segment_map:
      add_segment({.address = event.address,
                   .size = event.size,
                   .origin = event.origin,
                   .mapped = event.kind == EventKind::segment_map});
      break;
    case EventKind::segment_free:
    case EventKind::segment_unmap:
      cut_segments(heap, event.address, end_of(event.address, event.size));
      break;
    default:
      break;
  }
}

void LiveSet::add(const HeapSnapshot& snapshot) {
  for (const LiveAllocation& allocation : snapshot.allocations) insert(allocation);
  for (const LiveSegment& segment : snapshot.segments) add_segment(segment);
}

HeapSnapshot LiveSet::snapshot() const {
  HeapSnapshot snapshot;
  snapshot.allocations.reserve(by_place_.size());
  for (const LiveAllocation& slot : slots_)
    if (slot.allocation != AllocationId::none) snapshot.allocations.push_back(slot);
  std::ranges::sort(snapshot.allocations, {}, &LiveAllocation::allocation);
  snapshot.segments.reserve(segments_.size());
  for (const auto& [place, segment] : segments_) snapshot.segments.push_back(segment);
  std::ranges::stable_sort(snapshot.segments, {}, &LiveSegment::address);  // stable: keeps the order of heaps
  return snapshot;
}

}  // namespace memreel
