// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/history/lifetimes.h"

#include <algorithm>

namespace memreel {

void HeapTally::add(const Event& event, std::uint64_t at) {
  const Bytes size = event.size;
  const bool known = event.allocation != AllocationId::none;
  switch (event.kind) {
    case EventKind::alloc:
      ++history_.allocations;
      ++history_.end_live_allocations;
      history_.end_live += size;
      if (history_.end_live > history_.peak_live) {
        history_.peak_live = history_.end_live;
        history_.peak_live_event = at;
      }
      see_reserved(at);
      break;
    case EventKind::free_requested:
      ++history_.frees;
      if (known) {
        --history_.end_live_allocations;
        history_.end_live -= size;
      }
      break;
    case EventKind::segment_alloc:
    case EventKind::segment_map:
      reserve(history_.end_reserved + size, at);
      break;
    case EventKind::segment_free:
    case EventKind::segment_unmap:
      // A recording that began late may contain releases of memory whose reservation it lacks.
      history_.end_reserved -= std::min(size, history_.end_reserved);
      break;
    case EventKind::alloc_failed:
      ++history_.failures;
      break;
    case EventKind::memory_info:
      if (!samples_reserved_) break;
      history_.is_sampled = true;
      reserve(size + Bytes{event.value}, at);
      break;
    default:
      break;
  }
}

void HeapTally::reserve(Bytes reserved, std::uint64_t at) {
  history_.end_reserved = reserved;
  if (reserved > history_.peak_reserved) {
    history_.peak_reserved = reserved;
    history_.peak_growth_event = history_.peak_reserved_event = at;
    history_.live_at_peak_reserved = {};
  }
  see_reserved(at);
}

void HeapTally::see_reserved(std::uint64_t at) {
  const bool at_peak = history_.peak_reserved > 0_B && history_.end_reserved == history_.peak_reserved;
  if (!at_peak || history_.end_live <= history_.live_at_peak_reserved) return;
  history_.live_at_peak_reserved = history_.end_live;
  history_.peak_reserved_event = at;
}

std::vector<Lifetime> lifetimes(const Trace& trace) {
  std::vector<Lifetime> lives(trace.events.allocation_count());
  trace.events.for_each<event_field::allocation>([&](std::uint32_t i, const Event& event) {
    if (event.allocation == AllocationId::none) return;
    Lifetime& life = lives[index(event.allocation)];
    switch (event.kind) {
      case EventKind::alloc:
        life.begin = i;
        break;
      case EventKind::free_requested:
        life.requested = i;
        break;
      case EventKind::free_completed:
        life.completed = i;
        break;
      default:
        break;
    }
  });
  return lives;
}

bool inherits_peak(const Trace& trace, const HeapHistory& heap) {
  return heap.peak_reserved > 0_B && is_preexisting(trace.tables, trace.events.stack(heap.peak_growth_event));
}

std::vector<HeapHistory> heap_histories(const Trace& trace) {
  std::vector<HeapTally> tallies;
  for (std::uint32_t heap = 0; heap < trace.tables.heaps.size(); ++heap)
    tallies.emplace_back(trace.tables, HeapId{heap});
  trace.events.for_each<event_field::origin | event_field::allocation | event_field::size>(
      [&](std::uint32_t i, Event event) {
        if (event.kind == EventKind::memory_info) event.value = trace.events.value(i);
        if (event.kind != EventKind::free_completed)  // a third of all events, which counts nothing
          tallies[index(trace.tables[event.origin].heap)].add(event, i);
      });
  std::vector<HeapHistory> histories;
  for (const HeapTally& tally : tallies) {
    if (tally.has_memory()) histories.push_back(tally.history());
  }
  return histories;
}

}  // namespace memreel
