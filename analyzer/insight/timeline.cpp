// SPDX-License-Identifier: Apache-2.0
#include "analyzer/insight/timeline.h"

#include <algorithm>
#include <utility>

namespace memreel {
namespace {

// A value that rises can only be a range's highest, one that falls its lowest.

void rise(Bytes& value, Bytes by, MemoryRange& range) {
  value += by;
  if (value > range.most) range.most = value;
}

void fall(Bytes& value, Bytes by, MemoryRange& range) {
  value = value > by ? value - by : Bytes{};
  if (value < range.least) range.least = value;
}

/// One heap, event by event.
class TimelineBuilder {
 public:
  TimelineBuilder(HeapId heap, std::size_t columns) {
    timeline_.heap = heap;
    timeline_.columns.reserve(columns);
  }

  /// `block`: of the allocation, for allocations and frees.
  void see(EventKind kind, Bytes size, Bytes block, std::size_t column) {
    if (column >= filled_) fill_until(column);
    MemoryColumn& now = timeline_.columns.back();
    switch (kind) {
      case EventKind::alloc:
        used_ = true;
        rise(live_, size, now.live);
        rise(allocated_, block, now.allocated);
        break;
      case EventKind::free_requested:
        fall(live_, size, now.live);
        fall(allocated_, block, now.allocated);
        break;
      case EventKind::segment_alloc:
      case EventKind::segment_map:
        rise(reserved_, size, now.reserved);
        break;
      case EventKind::segment_free:
      case EventKind::segment_unmap:
        fall(reserved_, size, now.reserved);
        break;
      case EventKind::alloc_failed:
        if (timeline_.failures.empty() || timeline_.failures.back() != column) timeline_.failures.push_back(column);
        break;
      default:
        break;
    }
  }

  bool used() const { return used_; }

  MemoryTimeline take(std::size_t columns) && {
    if (columns > 0) fill_until(columns - 1);
    return std::move(timeline_);
  }

 private:
  void fill_until(std::size_t column) {
    while (timeline_.columns.size() <= column)
      timeline_.columns.push_back(
          {.live = {live_, live_}, .allocated = {allocated_, allocated_}, .reserved = {reserved_, reserved_}});
    filled_ = timeline_.columns.size();
  }

  MemoryTimeline timeline_;
  std::size_t filled_ = 0;  // columns
  Bytes live_, allocated_, reserved_;
  bool used_ = false;
};

}  // namespace

std::vector<MemoryTimeline> memory_timelines(const Trace& trace, const RecordedBlocks& blocks, std::size_t columns) {
  const EventColumns& events = trace.events;
  if (events.count() == 0 || columns == 0) return {};
  std::vector<TimelineBuilder> heaps;
  for (std::uint32_t h = 0; h < trace.tables.heaps.size(); ++h) heaps.emplace_back(HeapId{h}, columns);
  TimeColumns time(events, columns);
  for (std::size_t i = 0; i < events.count(); ++i) {
    const std::size_t column = time.column(i);
    if (events.kind[i] == EventKind::free_completed) continue;  // changes nothing here
    const AllocationId id = events.allocation[i];
    heaps[index(trace.tables[events.origin[i]].heap)].see(
        events.kind[i],
        id == AllocationId::none && events.kind[i] == EventKind::free_requested ? Bytes{} : events.size[i],
        id == AllocationId::none ? Bytes{} : blocks.sizes[index(id)], column);
  }
  std::vector<MemoryTimeline> timelines;
  for (TimelineBuilder& heap : heaps) {
    if (!heap.used()) continue;
    timelines.push_back(std::move(heap).take(columns));
    if (time.timed()) {
      timelines.back().begin = time.begin();
      timelines.back().end = time.end();
    }
  }
  return timelines;
}

namespace {

/// One heap, event by event.
class Builder {
 public:
  void see(std::size_t column, Category category, Bytes size, bool is_more) {
    fill_until(column);
    Bytes& of_category = now_.at(static_cast<std::size_t>(category));
    if (!is_more) {
      of_category -= size;
      live_ -= size;
      return;
    }
    of_category += size;
    live_ += size;
    if (live_ <= most_) return;
    most_ = live_;
    columns_.back() = now_;
  }

  bool used() const { return !columns_.empty(); }

  std::vector<BytesByCategory> take(std::size_t columns) && {
    fill_until(columns - 1);
    return std::move(columns_);
  }

 private:
  /// What is live when a stretch begins counts as live in it.
  void fill_until(std::size_t column) {
    if (columns_.size() > column) return;
    columns_.resize(column + 1, now_);
    most_ = live_;
  }

  std::vector<BytesByCategory> columns_;
  BytesByCategory now_{};
  Bytes live_;
  Bytes most_;  // in the last column
};

}  // namespace

std::vector<CategoryTimeline> category_timelines(const Trace& trace, const Categories& categories,
                                                 std::size_t columns) {
  const EventColumns& events = trace.events;
  if (events.count() == 0 || columns == 0) return {};
  std::vector<Builder> heaps(trace.tables.heaps.size());
  TimeColumns time(events, columns);
  for (std::size_t i = 0; i < events.count(); ++i) {
    const std::size_t column = time.column(i);
    const bool is_more = events.kind[i] == EventKind::alloc;
    const AllocationId id = events.allocation[i];
    if (id == AllocationId::none || (!is_more && events.kind[i] != EventKind::free_requested)) continue;
    const std::uint32_t begin = trace.allocation_events[index(id)];
    heaps[index(trace.tables[events.origin[begin]].heap)].see(column, categories.category(id), events.size[begin],
                                                              is_more);
  }
  std::vector<CategoryTimeline> timelines;
  for (std::uint32_t h = 0; h < heaps.size(); ++h)
    if (heaps[h].used()) timelines.push_back({HeapId{h}, std::move(heaps[h]).take(columns)});
  return timelines;
}

}  // namespace memreel
