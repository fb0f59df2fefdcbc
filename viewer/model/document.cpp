#include "viewer/model/document.h"

#include <algorithm>

namespace memreel::viewer {
namespace {

/// Rows of a view, for the searches of <algorithm>.
template <class Predicate>
std::uint32_t first_row(std::uint32_t count, const Predicate& not_before) {
  std::uint32_t begin = 0;
  while (count > 0) {
    const std::uint32_t half = count / 2;
    if (not_before(begin + half)) {
      count = half;
    } else {
      begin += half + 1;
      count -= half + 1;
    }
  }
  return begin;
}

constexpr std::uint64_t unzigzag_bit = 1;

}  // namespace

Nanoseconds Document::time(std::uint32_t event) const {
  const std::uint64_t offset = columns.time_offset[event];
  const auto magnitude = static_cast<std::int64_t>(offset >> 1U);
  return Nanoseconds{columns.leaf_time[event / leaf_events] + ((offset & unzigzag_bit) != 0 ? -magnitude : magnitude)};
}

EventKind Document::kind(std::uint32_t event) const {
  const std::uint64_t subject = columns.subject[event];
  switch (subject_kind(subject)) {
    case Subject::alloc:
      return EventKind::alloc;
    case Subject::free_requested:
      return EventKind::free_requested;
    case Subject::free_completed:
      return EventKind::free_completed;
    case Subject::other:
      break;
  }
  return columns.other[subject_row(subject)].event.kind;
}

std::optional<std::uint32_t> Document::allocation_of(std::uint32_t event) const {
  const std::uint64_t subject = columns.subject[event];
  if (subject_kind(subject) == Subject::other) return std::nullopt;
  return subject_row(subject);
}

std::uint32_t Document::begin_of(std::uint32_t allocation) const {
  // Allocations begin in order of their ids: the leaf by search, the event by counting in it.
  const auto leaves = static_cast<std::uint32_t>(columns.leaf_allocation.size());
  const std::uint32_t leaf =
      first_row(leaves, [&](std::uint32_t i) { return columns.leaf_allocation[i] > allocation; }) - 1;
  const std::uint64_t subject = subject_of(Subject::alloc, allocation);
  std::uint32_t event = leaf * leaf_events;
  while (columns.subject[event] != subject) ++event;
  return event;
}

Allocation Document::allocation(std::uint32_t id) const {
  return {.id = AllocationId{id},
          .address = {columns.address[id]},
          .size = size_of(id),
          .stack = stack_of(id),
          .origin = origin_of(id),
          .begin = begin_of(id),
          .requested = requested(id),
          .completed = completed(id)};
}

Segment Document::segment(std::uint32_t i) const {
  Segment segment = columns.segment[i];
  segment.end = seen(columns.segment_end[i].get());
  return segment;
}

const HeapCourse* Document::course(HeapId heap) const {
  const auto found = std::ranges::find(heaps, heap, &HeapCourse::heap);
  return found == heaps.end() ? nullptr : &*found;
}

Nanoseconds Document::last_time() const {
  if (empty()) return {};
  const std::uint32_t leaf = (event_count() - 1) / leaf_events;
  auto latest = leaf == 0 ? time(0) : Nanoseconds{columns.leaf_latest[leaf - 1]};
  for (std::uint32_t e = leaf * leaf_events; e < event_count(); ++e) latest = std::max(latest, time(e));
  return latest;
}

std::uint32_t Document::events_until(Nanoseconds until) const {
  const auto whole = std::min(static_cast<std::uint32_t>(columns.leaf_latest.size()), event_count() / leaf_events);
  const std::uint32_t leaf = first_row(whole, [&](std::uint32_t i) { return columns.leaf_latest[i] > until.count(); });
  std::uint32_t event = leaf * leaf_events;
  const std::uint32_t end = std::min(event_count(), event + leaf_events);
  while (event < end && time(event) <= until) ++event;
  return event;
}

std::uint32_t Document::allocations_before(std::uint32_t event) const {
  if (event >= event_count()) return allocation_count();
  std::uint32_t leaf = event / leaf_events;
  std::uint32_t count = columns.leaf_allocation[leaf];
  for (std::uint32_t e = leaf * leaf_events; e < event; ++e)
    if (subject_kind(columns.subject[e]) == Subject::alloc) ++count;
  return count;
}

std::uint32_t Document::segments_before(std::uint32_t event) const {
  return first_row(segment_count(), [&](std::uint32_t i) { return columns.segment[i].begin >= event; });
}

std::uint32_t Document::others_before(std::uint32_t event) const {
  return first_row(static_cast<std::uint32_t>(columns.other.size()),
                   [&](std::uint32_t i) { return columns.other[i].at >= event; });
}

std::uint32_t Document::notables_before(std::uint32_t event) const {
  return first_row(static_cast<std::uint32_t>(columns.notable.size()),
                   [&](std::uint32_t i) { return columns.other[columns.notable[i]].at >= event; });
}

std::uint32_t Document::spans_before(std::uint32_t event) const {
  return first_row(static_cast<std::uint32_t>(columns.span.size()),
                   [&](std::uint32_t i) { return columns.span[i].begin >= event; });
}

void Document::apply_allocation(HeapId heap, std::uint32_t id, std::uint32_t event, bool begins,
                                Figures& figures) const {
  if (heap_of(origin_of(id)) != heap) return;
  const std::uint64_t size = size_of(id).count;
  std::uint64_t& live = figures[static_cast<std::size_t>(Figure::live)];
  std::uint64_t& held = figures[static_cast<std::size_t>(Figure::held)];
  if (begins) {
    live += size;
    held += size;
    return;
  }
  if (requested(id) == event) live -= size;
  if (completed(id) == event) held -= size;
}

template <class Take>
void Document::walk_leaf(const HeapCourse& heap, std::uint32_t begin, std::uint32_t end, const Take& take) const {
  const std::uint32_t leaf = begin / leaf_events;
  Figures figures = leaf == 0 ? Figures{} : heap.pyramid.leaf(leaf - 1).last;
  std::uint32_t other = others_before(leaf * leaf_events);
  const auto other_count = static_cast<std::uint32_t>(columns.other.size());
  for (std::uint32_t e = leaf * leaf_events; e < end; ++e) {
    for (; other < other_count && columns.other[other].at == e; ++other) {
      const OtherEvent& row = columns.other[other];
      if (row.event.kind == EventKind::free_completed && row.event.allocation != AllocationId::none)
        apply_allocation(heap.heap, index(row.event.allocation), e, false, figures);
      if (row.reserved_change != 0 && heap_of(row.event.origin) == heap.heap)
        figures[static_cast<std::size_t>(Figure::reserved)] += static_cast<std::uint64_t>(row.reserved_change);
    }
    const std::uint64_t subject = columns.subject[e];
    if (subject_kind(subject) != Subject::other)
      apply_allocation(heap.heap, subject_row(subject), e, subject_kind(subject) == Subject::alloc, figures);
    settle(figures);
    if (e >= begin) take(figures);
  }
}

Figures Document::figures_after(const HeapCourse& heap, std::uint32_t events) const {
  events = std::min(events, event_count());
  if (events == 0) return {};
  if (events % leaf_events == 0) return heap.pyramid.leaf(events / leaf_events - 1).last;
  Figures result{};
  walk_leaf(heap, events - 1, events, [&](const Figures& figures) { result = figures; });
  return result;
}

Extent Document::extent(const HeapCourse& heap, std::uint32_t begin, std::uint32_t end) const {
  std::optional<Extent> extent;
  const auto add = [&](const Extent& part) {
    if (extent)
      extent->add(part);
    else
      extent = part;
  };
  const auto add_events = [&](std::uint32_t from, std::uint32_t to) {
    walk_leaf(heap, from, to, [&](const Figures& figures) { add(Extent::at(figures)); });
  };
  if (begin % leaf_events != 0) {
    const std::uint32_t to = std::min(end, (begin / leaf_events + 1) * leaf_events);
    add_events(begin, to);
    begin = to;
  }
  if (const std::uint32_t leaves = end / leaf_events; begin / leaf_events < leaves) {
    add(heap.pyramid.over(begin / leaf_events, leaves));
    begin = leaves * leaf_events;
  }
  if (begin < end) add_events(begin, end);
  return extent.value_or(Extent{});
}

const Keyframe& Document::keyframe_before(std::uint32_t events) const {
  static const Keyframe beginning;
  const auto after = std::ranges::upper_bound(keyframes, events, {}, [](const auto& k) { return k->event; });
  return after == keyframes.begin() ? beginning : **std::prev(after);
}

}  // namespace memreel::viewer
