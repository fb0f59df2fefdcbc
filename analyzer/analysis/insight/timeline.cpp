// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/timeline.h"

#include <map>

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

  void sample_reserved(Bytes reserved, std::size_t column) {
    if (column >= filled_) fill_until(column);
    MemoryRange& now = timeline_.columns.back().reserved;
    if (reserved > reserved_)
      rise(reserved_, reserved - reserved_, now);
    else
      fall(reserved_, reserved_ - reserved, now);
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
  const Events& events = trace.events;
  if (events.count() == 0 || columns == 0) return {};
  std::vector<TimelineBuilder> heaps;
  for (std::uint32_t h = 0; h < trace.tables.heaps.size(); ++h) heaps.emplace_back(HeapId{h}, columns);
  TimeColumns time(events, columns);
  events.for_each<event_field::origin | event_field::allocation | event_field::time | event_field::size>(
      [&](std::uint32_t i, const Event& event) {
        const std::size_t column = time.column(i, event.time);
        if (event.kind == EventKind::free_completed) return;  // changes nothing here
        const HeapId heap = trace.tables[event.origin].heap;
        if (event.kind == EventKind::memory_info && is_torch_heap(trace.tables, heap))
          heaps[index(heap)].sample_reserved(event.size + Bytes{events.value(i)}, column);
        const bool known = event.allocation != AllocationId::none;
        heaps[index(heap)].see(event.kind, !known && event.kind == EventKind::free_requested ? Bytes{} : event.size,
                               known ? blocks.sizes[index(event.allocation)] : Bytes{}, column);
      });
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
  const Events& events = trace.events;
  if (events.count() == 0 || columns == 0) return {};
  std::vector<Builder> heaps(trace.tables.heaps.size());
  TimeColumns time(events, columns);
  events.for_each<event_field::allocation | event_field::time | event_field::size>(
      [&](std::uint32_t i, const Event& event) {
        const std::size_t column = time.column(i, event.time);
        const bool is_more = event.kind == EventKind::alloc;
        const AllocationId id = event.allocation;
        if (id == AllocationId::none || (!is_more && event.kind != EventKind::free_requested)) return;
        heaps[index(trace.tables[events.origin_of(id)].heap)].see(column, categories.category(id), event.size, is_more);
      });
  std::vector<CategoryTimeline> timelines;
  for (std::uint32_t h = 0; h < heaps.size(); ++h)
    if (heaps[h].used()) timelines.push_back({HeapId{h}, std::move(heaps[h]).take(columns)});
  return timelines;
}

namespace {

/// The live bytes of one heap over the trace, and their maximum since any earlier event.
class LiveSeries {
 public:
  explicit LiveSeries(const Trace& trace, HeapId heap) : trace_(trace), heap_(heap) {}

  /// The thread that made what the event allocates or frees in the heap; none for other events.
  std::optional<ThreadId> thread_of(const Event& event) const {
    const AllocationId id = event.allocation;
    if (id == AllocationId::none || (event.kind != EventKind::alloc && event.kind != EventKind::free_requested))
      return {};
    const Origin& origin = trace_.tables[trace_.events.origin_of(id)];
    return origin.heap == heap_ ? std::optional(origin.thread) : std::nullopt;
  }

  /// Whether event `i` allocates in the heap; call for each event in order.
  bool see(std::size_t i, const Event& event) {
    const bool is_more = event.kind == EventKind::alloc;
    if (event.allocation == AllocationId::none || (!is_more && event.kind != EventKind::free_requested)) return false;
    if (trace_.tables[trace_.events.origin_of(event.allocation)].heap != heap_) return false;
    live_ = is_more ? live_ + event.size : live_ - event.size;
    if (!is_more) return false;
    // Of two maxima, the later represents both unless the earlier is higher.
    while (!falling_.empty() && falling_.back().live <= live_) falling_.pop_back();
    falling_.push_back({.live = live_, .events = i + 1});
    return true;
  }

  Bytes live() const { return live_; }

  /// The highest value since `events` events had happened and `live` bytes were live.
  SpanPeak highest_since(std::uint64_t events, Bytes live) const {
    const auto first = std::ranges::upper_bound(falling_, events, {}, &SpanPeak::events);
    return first != falling_.end() && first->live > live ? *first : SpanPeak{.live = live, .events = events};
  }

 private:
  const Trace& trace_;
  HeapId heap_;
  Bytes live_;
  std::vector<SpanPeak> falling_;  // by events, each lower than its predecessor
};

/// The live bytes that a thread's ranges account for: what it made, and what was made by threads without ranges of
/// their own, such as autograd's.
class SeriesOfThreads {
 public:
  SeriesOfThreads(const Trace& trace, HeapId heap) : all_(trace, heap) {
    constexpr std::size_t most = 64;  // each event of a thread without ranges is one of every series
    const Events& events = trace.events;
    for (std::size_t i = 0; (i = events.find(EventKind::mark, i)) < events.count(); ++i) {
      if (events.value(i) >= trace.tables.marks.size()) continue;
      if (trace.tables.marks[events.value(i)].phase == MarkPhase::begin)
        of_.try_emplace(trace.tables[events.origin(i)].thread, trace, heap);
    }
    if (of_.size() < 2 || of_.size() > most) of_.clear();
  }

  void see(std::size_t i, const Event& event) {
    all_.see(i, event);
    if (of_.empty()) return;
    const auto thread = all_.thread_of(event);
    if (!thread) return;
    if (const auto own = of_.find(*thread); own != of_.end())
      own->second.see(i, event);
    else
      for (auto& [other, series] : of_) series.see(i, event);
  }

  const LiveSeries& all() const { return all_; }
  const LiveSeries& of(ThreadId thread) const {
    const auto own = of_.find(thread);
    return own != of_.end() ? own->second : all_;
  }

 private:
  LiveSeries all_;
  std::map<ThreadId, LiveSeries> of_;  // empty: all are of one thread, or there are too many
};

/// Names must outlive this object; the trace owns them.
class RangeTree {
 public:
  RangeTree(const SeriesOfThreads& series, std::size_t most) : series_(series), most_(most) {}

  void begin(ThreadId thread, std::string_view name, std::uint64_t events) {
    std::vector<Open>& open = open_[thread];
    const std::size_t parent = open.empty() ? none : open.back().node;
    const auto [entry, is_new] = nodes_.try_emplace({parent, name}, none);
    if (is_new && ranges_.size() < most_) {
      entry->second = ranges_.size();
      ranges_.push_back({.name = std::string(name),
                         .parent = parent == none ? std::nullopt : std::optional(parent),
                         .depth = parent == none ? 0 : ranges_[parent].depth + 1});
    }
    open.push_back({.node = entry->second,
                    .name = name,
                    .events = events,
                    .live = series_.all().live(),
                    .own = series_.of(thread).live()});
  }

  /// Ignore ends of ranges that began before the recording.
  void end(ThreadId thread, std::string_view name) {
    constexpr std::ptrdiff_t farthest = 64;  // ranges that overlap instead of nesting
    std::vector<Open>& open = open_[thread];
    const auto last = open.end() - std::min<std::ptrdiff_t>(farthest, std::ssize(open));
    for (auto at = open.end(); at != last;)
      if ((--at)->name == name) {
        close(thread, *at);
        open.erase(at);
        return;
      }
  }

  std::vector<RangePeak> take() && {
    for (const auto& [thread, open] : open_)
      for (const Open& range : open) close(thread, range);
    return std::move(ranges_);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct Open {
    std::size_t node = none;
    std::string_view name;
    std::uint64_t events = 0;
    Bytes live, own;  // when it began: of all, and of its thread
  };

  void close(ThreadId thread, const Open& range) {
    if (range.node == none) return;
    RangePeak& node = ranges_[range.node];
    const SpanPeak peak = series_.all().highest_since(range.events, range.live);
    ++node.count;
    if (node.count == 1 || peak.live > node.peak.live) node.peak = peak;
    node.rise = std::max(node.rise, series_.of(thread).highest_since(range.events, range.own).live - range.own);
  }

  const SeriesOfThreads& series_;
  std::size_t most_;
  std::vector<RangePeak> ranges_;
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> nodes_;
  std::map<ThreadId, std::vector<Open>> open_;
};

}  // namespace

std::vector<PhasePeak> phase_peaks(const Trace& trace, const Categories& categories, HeapId heap) {
  LiveSeries series(trace, heap);
  std::array<SpanPeak, phase_count> peaks{};
  trace.events.for_each<event_field::allocation | event_field::size>([&](std::uint32_t i, const Event& event) {
    if (!series.see(i, event)) return;
    SpanPeak& peak = peaks.at(static_cast<std::size_t>(categories.phase[index(event.allocation)]));
    if (series.live() > peak.live) peak = {.live = series.live(), .events = std::uint64_t{i} + 1};
  });
  std::vector<PhasePeak> list;
  for (std::size_t p = 0; p < phase_count; ++p)
    if (peaks.at(p).events > 0) list.push_back({static_cast<Phase>(p), peaks.at(p)});
  return list;
}

std::vector<RangePeak> range_peaks(const Trace& trace, HeapId heap, std::size_t most_ranges) {
  const Tables& tables = trace.tables;
  if (trace.events.find(EventKind::mark, 0) == trace.events.count()) return {};
  SeriesOfThreads series(trace, heap);
  RangeTree tree(series, most_ranges);
  constexpr std::uint8_t fields =
      event_field::origin | event_field::allocation | event_field::address_or_value | event_field::size;
  trace.events.for_each<fields>([&](std::uint32_t i, const Event& event) {
    series.see(i, event);
    if (event.kind != EventKind::mark || event.value >= tables.marks.size()) return;
    const Mark& mark = tables.marks[event.value];
    const ThreadId thread = tables[event.origin].thread;
    if (mark.phase == MarkPhase::begin) tree.begin(thread, tables[mark.name], std::uint64_t{i} + 1);
    if (mark.phase == MarkPhase::end) tree.end(thread, tables[mark.name]);
  });
  return std::move(tree).take();
}

}  // namespace memreel
