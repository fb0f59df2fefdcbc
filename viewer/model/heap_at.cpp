// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/heap_at.h"

#include <algorithm>
#include <limits>

#include "analyzer/analysis/insight/heap_map.h"
#include "viewer/model/source.h"

namespace memreel::viewer {
namespace {

Address end_of(Address address, Bytes size) {
  constexpr Address last{std::numeric_limits<std::uint64_t>::max()};
  return size > last - address ? last : address + size;
}

}  // namespace

void SegmentHistory::begin(const Segment& segment, HeapId heap) {
  open_[{heap, segment.address}] = static_cast<std::uint32_t>(segments_.size());
  segments_.push_back(segment);
  ends_.push_back();
}

std::int64_t SegmentHistory::cut(HeapId heap, Address begin_address, Address end_address, std::uint32_t at) {
  std::int64_t change = 0;
  auto place = open_.upper_bound({heap, begin_address});
  if (place != open_.begin() && std::prev(place)->first.first == heap) --place;
  while (place != open_.end() && place->first.first == heap && place->first.second < end_address) {
    const Segment whole = segments_[place->second];
    const Address whole_end = end_of(whole.address, whole.size);
    if (whole_end <= begin_address) {
      ++place;
      continue;
    }
    ends_[place->second].set(at);
    place = open_.erase(place);
    const auto keep = [&](Address from, Address to) {
      Segment part = whole;
      part.address = from;
      part.size = to - from;
      part.begin = at;
      begin(part, heap);
    };
    if (whole.address < begin_address) keep(whole.address, begin_address);
    if (end_address < whole_end) keep(end_address, whole_end);
    change -=
        static_cast<std::int64_t>((std::min(end_address, whole_end) - std::max(begin_address, whole.address)).count);
  }
  return change;
}

std::int64_t SegmentHistory::apply(const Event& event, HeapId heap, std::uint32_t at) {
  const Address end = end_of(event.address, event.size);
  if (end == event.address) return 0;
  const std::int64_t change = cut(heap, event.address, end, at);
  if (event.kind == EventKind::segment_free || event.kind == EventKind::segment_unmap) return change;
  begin({.address = event.address,
         .size = end - event.address,
         .origin = event.origin,
         .mapped = event.kind == EventKind::segment_map,
         .begin = at},
        heap);
  return change + static_cast<std::int64_t>((end - event.address).count);
}

std::vector<std::uint32_t> SegmentHistory::held() const {
  std::vector<std::uint32_t> rows;
  rows.reserve(open_.size());
  for (const auto& [place, row] : open_) rows.push_back(row);
  std::ranges::sort(rows);
  return rows;
}

namespace {

Event event_at(const Document& document, std::uint32_t at) {
  const std::optional<std::uint32_t> id = document.allocation_of(at);
  if (!id) return document.recorded(at);
  return {.kind = document.kind(at),
          .origin = document.origin_of(*id),
          .allocation = AllocationId{*id},
          .address = document.address_of(*id),
          .size = document.size_of(*id)};
}

}  // namespace

bool Rounding::is_known(HeapId heap) const { return std::ranges::find(heaps, heap) != heaps.end(); }

Bytes Rounding::of(std::uint32_t allocation) const {
  return allocation < extra.size() ? Bytes{extra[allocation]} : Bytes{};
}

bool has_known_rounding(const Document& document) {
  return document.event_count() <= longest_in_memory &&
         std::ranges::any_of(document.heaps,
                             [&](const HeapSeries& series) { return is_torch_heap(*document.tables, series.heap); });
}

std::optional<Rounding> find_rounding(const Document& document, const Progress& progress) {
  BlockSizes sizes(*document.tables, document.trace->initial_heaps);
  Rounding rounding;
  for (std::uint32_t at = 0; at < document.event_count(); ++at) {
    if (at % (1U << 16U) == 0) {
      if (progress.cancelled()) return std::nullopt;
      progress.set(static_cast<double>(at) / document.event_count());
    }
    const Event event = event_at(document, at);
    if (const auto taken = sizes.see(event)) rounding.extra.push_back((*taken - event.size).count);
  }
  rounding.extra.pack();
  for (const HeapSeries& series : document.heaps)
    if (is_torch_heap(*document.tables, series.heap)) rounding.heaps.push_back(series.heap);
  return rounding;
}

namespace {

template <class Range>
auto* found_at(Range& sorted, Address address) {
  auto after = std::ranges::upper_bound(sorted, address, {}, [](const auto& row) { return row.address; });
  const auto* none = static_cast<decltype(&*after)>(nullptr);
  if (after == sorted.begin()) return none;
  --after;
  return address < after->end() ? &*after : none;
}

/// Calls `take` with every allocation held after `events` events, by id.
template <class Take>
void for_each_held(const Document& document, HeapId heap, std::uint32_t events, const Take& take) {
  const Keyframe& keyframe = document.keyframe_before(events);
  const auto see = [&](std::uint32_t id) {
    if (document.completed(id) >= events && document.heap_of(document.origin_of(id)) == heap) take(id);
  };
  for (const std::uint32_t id : keyframe.held) see(id);
  const std::uint32_t end = document.allocations_before(events);
  for (std::uint32_t id = keyframe.allocations; id < end; ++id) see(id);
}

void add_segments(const Document& document, HeapAt& state) {
  const Keyframe& keyframe = document.keyframe_before(state.event);
  std::vector<Segment> segments;
  const auto see = [&](std::uint32_t row) {
    const Segment segment = document.segment(row);
    if (segment.end >= state.event && document.heap_of(segment.origin) == state.heap) segments.push_back(segment);
  };
  for (const std::uint32_t row : keyframe.segments_held) see(row);
  const std::uint32_t end = document.segments_before(state.event);
  for (std::uint32_t row = keyframe.segments; row < end; ++row) see(row);
  std::ranges::sort(segments, {}, &Segment::address);

  for (const Segment& s : segments) {
    state.reserved += s.size;
    if (!state.segments.empty()) {
      HeldSegment& before = state.segments.back();
      if (before.mapped && s.mapped && before.origin == s.origin && before.end() == s.address) {
        before.size += s.size;
        before.begin = std::max(before.begin, s.begin);
        continue;
      }
    }
    state.segments.push_back(
        {.address = s.address, .size = s.size, .origin = s.origin, .mapped = s.mapped, .begin = s.begin});
  }
}

/// Assigns blocks to segments, and finds the gaps between them.
void measure_segments(HeapAt& state) {
  std::uint32_t next = 0;
  const auto count = static_cast<std::uint32_t>(state.blocks.size());
  Bytes largest{};
  for (std::uint32_t i = 0; i < state.segments.size(); ++i) {
    HeldSegment& segment = state.segments[i];
    while (next < count && state.blocks[next].address < segment.address) ++next;
    segment.first_block = next;
    Address free_from = segment.address;
    const auto see_gap = [&](Address until) {
      if (until > free_from && until - free_from > segment.largest_gap_size) {
        segment.largest_gap = free_from;
        segment.largest_gap_size = until - free_from;
      }
    };
    for (; next < count && state.blocks[next].address < segment.end(); ++next) {
      const HeldBlock& block = state.blocks[next];
      see_gap(block.address);
      free_from = std::max(free_from, std::min(block.end(), segment.end()));
      segment.held += block.size;
      segment.rounding += block.taken - block.size;
      ++segment.blocks;
    }
    see_gap(segment.end());
    if (segment.largest_gap_size > largest) {
      largest = segment.largest_gap_size;
      state.largest_gap = i;
    }
  }
  if (!state.largest_gap) return;
  const HeldSegment& segment = state.segments[*state.largest_gap];
  for (std::uint32_t b = segment.first_block; b < segment.first_block + segment.blocks; ++b) {
    if (state.blocks[b].address < segment.largest_gap) state.pin_before = b;
    if (state.blocks[b].address > segment.largest_gap) {
      state.pin_after = b;
      break;
    }
  }
}

}  // namespace

const HeldBlock* HeapAt::block_at(Address address) const { return found_at(blocks, address); }
const HeldSegment* HeapAt::segment_at(Address address) const { return found_at(segments, address); }

HeapAt heap_at(const Document& document, HeapId heap, std::uint32_t events, const Rounding* rounding) {
  HeapAt state{.heap = heap, .event = std::min(events, document.event_count())};
  // The rounding of a shorter version of the document lacks the latest allocations.
  if (rounding != nullptr && rounding->is_known(heap) &&
      document.allocations_before(state.event) <= rounding->extra.size())
    state.rounding = 0_B;
  for_each_held(document, heap, state.event, [&](std::uint32_t id) {
    const bool pending = document.requested(id) < state.event;
    const Bytes size = document.size_of(id);
    const Bytes extra = state.rounding ? rounding->of(id) : 0_B;
    state.blocks.push_back({.allocation = id,
                            .address = document.address_of(id),
                            .size = size,
                            .taken = size + extra,
                            .pending = pending});
    (pending ? state.pending : state.live) += size;
    if (state.rounding) *state.rounding += extra;
  });
  std::ranges::sort(state.blocks, {}, &HeldBlock::address);
  add_segments(document, state);
  measure_segments(state);
  return state;
}

std::vector<std::uint32_t> held_at(const Document& document, HeapId heap, std::uint32_t events) {
  std::vector<std::uint32_t> ids;
  for_each_held(document, heap, std::min(events, document.event_count()), [&](std::uint32_t id) { ids.push_back(id); });
  return ids;
}

}  // namespace memreel::viewer
