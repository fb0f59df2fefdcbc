// SPDX-License-Identifier: Apache-2.0
#include "formats/model/lost_frees.h"

#include <algorithm>

namespace memreel {
namespace {

/// The end of a range, or the last address if its size is invalid. No range is empty.
Address range_end(Address begin, Bytes size) {
  constexpr Address last{~std::uint64_t{0}};
  return size >= last - begin ? last : begin + std::max(size, 1_B);
}

/// The first range that may reach beyond `begin`.
template <class Ranges>
auto first_beyond(Ranges& ranges, Address begin) {
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && range_end(std::prev(at)->first, std::prev(at)->second.size) > begin) --at;
  return at;
}

}  // namespace

void LostFrees::follow(const Event& event, std::vector<Event>& out) {
  const auto space = [&]() -> Space& { return spaces_[(*tables_)[event.origin].heap]; };
  switch (event.kind) {
    case EventKind::alloc:
      allocate(event, out);
      break;
    case EventKind::free_requested:
    case EventKind::free_completed:
      if (!free(event, out)) return;
      break;
    case EventKind::segment_alloc:
    case EventKind::segment_map:
      begin_segments(space(), event, out);
      give_back(space(), event.address, range_end(event.address, event.size), true, event, out);
      space().segments[event.address] = {
          .size = event.size, .origin = event.origin, .mapped = event.kind == EventKind::segment_map};
      break;
    case EventKind::segment_free:
    case EventKind::segment_unmap:
      begin_segments(space(), event, out);
      if (space().has_segments) reserve(space(), event.address, range_end(event.address, event.size), event, out);
      give_back(space(), event.address, range_end(event.address, event.size), false, event, out);
      break;
    default:
      break;
  }
  out.push_back(event);
}

void LostFrees::allocate(const Event& event, std::vector<Event>& out) {
  if (event.address == Address{}) return;
  const Origin& origin = (*tables_)[event.origin];
  Space& space = spaces_[origin.heap];
  const bool is_handle = (*tables_)[(*tables_)[origin.pool].name] == "physical";
  Blocks& blocks = is_handle ? space.handles : space.blocks;
  const Bytes size = is_handle ? 1_B : event.size;
  end_within(blocks, event.address, range_end(event.address, size), event, out);
  blocks[event.address] = {.allocation = event.allocation, .size = event.size, .origin = event.origin};
  if (is_handle) blocks[event.address].size = 1_B;
  if (space.has_segments) reserve(space, event.address, range_end(event.address, size), event, out);
  places_[index(event.allocation)] = {&blocks, event.address};
}

bool LostFrees::free(const Event& event, std::vector<Event>& out) {
  if (event.allocation == AllocationId::none) return true;
  if (ended_.contains(index(event.allocation))) return false;
  const auto place = places_.find(index(event.allocation));
  if (place == places_.end()) return true;
  const auto [blocks, address] = place->second;
  const auto block = blocks->find(address);
  const bool observes = (*tables_)[(*tables_)[block->second.origin].heap].observes_completion;
  if (event.kind == EventKind::free_requested && observes) {
    block->second.requested = true;
    return true;
  }
  if (event.kind == EventKind::free_completed && !block->second.requested) {
    Event request = event;
    request.kind = EventKind::free_requested;
    out.push_back(request);
  }
  blocks->erase(block);
  places_.erase(place);
  return true;
}

void LostFrees::end(Blocks& blocks, Blocks::iterator block, const Event& by, std::vector<Event>& out) {
  // At the place of what proves it: it is no work of its own.
  Event free{.kind = EventKind::free_requested,
             .origin = by.origin,
             .stack = by.stack,
             .allocation = block->second.allocation,
             .time = by.time,
             .address = block->first,
             .size = block->second.size};
  if (!block->second.requested) out.push_back(free);
  free.kind = EventKind::free_completed;
  if ((*tables_)[(*tables_)[free.origin].heap].observes_completion) out.push_back(free);
  ended_.insert(index(free.allocation));
  places_.erase(index(free.allocation));
  blocks.erase(block);
}

void LostFrees::end_within(Blocks& blocks, Address begin, Address end, const Event& by, std::vector<Event>& out) {
  for (auto at = first_beyond(blocks, begin); at != blocks.end() && at->first < end;) this->end(blocks, at++, by, out);
}

void LostFrees::reserve(Space& space, Address begin, Address end, const Event& by, std::vector<Event>& out) {
  const auto add = [&](Address from, Address to) {
    space.segments[from] = {.size = to - from, .origin = by.origin, .mapped = true};
    out.push_back({.kind = EventKind::segment_map,
                   .origin = by.origin,
                   .stack = by.stack,
                   .time = by.time,
                   .address = from,
                   .size = to - from});
  };
  for (auto at = first_beyond(space.segments, begin); at != space.segments.end() && at->first < end; ++at) {
    if (begin < at->first) add(begin, at->first);
    begin = range_end(at->first, at->second.size);
  }
  if (begin < end) add(begin, end);
}

void LostFrees::begin_segments(Space& space, const Event& by, std::vector<Event>& out) {
  if (space.has_segments || (*tables_)[(*tables_)[by.origin].heap].level != Level::framework) return;
  space.has_segments = true;
  for (const auto& [address, block] : space.blocks) reserve(space, address, range_end(address, block.size), by, out);
}

void LostFrees::give_back(Space& space, Address begin, Address end, bool adds, const Event& by,
                          std::vector<Event>& out) {
  for (auto at = first_beyond(space.segments, begin); at != space.segments.end() && at->first < end;) {
    const Address first = at->first, last = range_end(first, at->second.size);
    const Segment segment = at->second;
    at = space.segments.erase(at);
    // Mapped memory goes piece by piece, a segment as a whole.
    const Address from = segment.mapped ? std::max(first, begin) : first,
                  to = segment.mapped ? std::min(last, end) : last;
    if (first < from) space.segments[first] = {from - first, segment.origin, segment.mapped};
    if (to < last) at = space.segments.insert_or_assign(to, Segment{last - to, segment.origin, segment.mapped}).first;
    end_within(space.blocks, from, to, by, out);
    if (adds)
      out.push_back({.kind = segment.mapped ? EventKind::segment_unmap : EventKind::segment_free,
                     .origin = segment.origin,
                     .stack = by.stack,
                     .time = by.time,
                     .address = from,
                     .size = to - from});
  }
}

std::size_t add_lost_frees(Trace& trace) {
  if (!may_lack_frees(trace.losses, trace.read)) return 0;
  const Events old = std::exchange(trace.events, {});
  LostFrees frees(trace.tables);
  std::vector<Event> next;
  std::size_t changed = 0;
  auto later = trace.read.later.begin();
  for (std::uint32_t i = 0; i < old.count(); ++i) {
    for (; later != trace.read.later.end() && later->first_event == i; ++later) {
      later->first_event = static_cast<std::uint32_t>(trace.events.count());
      frees = LostFrees(trace.tables);  // what one recording still held says nothing of the next
    }
    next.clear();
    frees.follow(old[i], next);
    for (const Event& event : next) trace.events.push_back(event);
    changed += next.empty() ? 1 : next.size() - 1;
  }
  trace.events.pack();
  return changed;
}

}  // namespace memreel
