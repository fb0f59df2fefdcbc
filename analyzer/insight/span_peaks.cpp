// SPDX-License-Identifier: Apache-2.0
#include "analyzer/insight/span_peaks.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace memreel {
namespace {

/// The live bytes of one heap over the trace, and their maximum since any earlier event.
class LiveSeries {
 public:
  explicit LiveSeries(const Trace& trace, HeapId heap) : trace_(trace), heap_(heap) {}

  /// The thread that made what event `i` allocates or frees in the heap; none for other events.
  std::optional<ThreadId> thread_of(std::size_t i) const {
    const AllocationId id = trace_.events.allocation[i];
    const EventKind kind = trace_.events.kind[i];
    if (id == AllocationId::none || (kind != EventKind::alloc && kind != EventKind::free_requested)) return {};
    const Origin& origin = trace_.tables[trace_.events.origin[trace_.allocation_events[index(id)]]];
    return origin.heap == heap_ ? std::optional(origin.thread) : std::nullopt;
  }

  /// Whether event `i` allocates in the heap; call for each event in order.
  bool see(std::size_t i) {
    const EventColumns& events = trace_.events;
    const AllocationId id = events.allocation[i];
    const bool is_more = events.kind[i] == EventKind::alloc;
    if (id == AllocationId::none || (!is_more && events.kind[i] != EventKind::free_requested)) return false;
    const std::uint32_t begin = trace_.allocation_events[index(id)];
    if (trace_.tables[events.origin[begin]].heap != heap_) return false;
    live_ = is_more ? live_ + events.size[begin] : live_ - events.size[begin];
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
    const EventColumns& events = trace.events;
    for (std::size_t i = 0; i < events.count(); ++i) {
      if (events.kind[i] != EventKind::mark || events.address_or_value[i] >= trace.tables.marks.size()) continue;
      if (trace.tables.marks[events.address_or_value[i]].phase == MarkPhase::begin)
        of_.try_emplace(trace.tables[events.origin[i]].thread, trace, heap);
    }
    if (of_.size() < 2 || of_.size() > most) of_.clear();
  }

  void see(std::size_t i) {
    all_.see(i);
    if (of_.empty()) return;
    const auto thread = all_.thread_of(i);
    if (!thread) return;
    if (const auto own = of_.find(*thread); own != of_.end())
      own->second.see(i);
    else
      for (auto& [other, series] : of_) series.see(i);
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
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    if (!series.see(i)) continue;
    SpanPeak& peak = peaks.at(static_cast<std::size_t>(categories.phase[index(trace.events.allocation[i])]));
    if (series.live() > peak.live) peak = {.live = series.live(), .events = i + 1};
  }
  std::vector<PhasePeak> list;
  for (std::size_t p = 0; p < phase_count; ++p)
    if (peaks.at(p).events > 0) list.push_back({static_cast<Phase>(p), peaks.at(p)});
  return list;
}

std::vector<RangePeak> range_peaks(const Trace& trace, HeapId heap, std::size_t most_ranges) {
  const EventColumns& events = trace.events;
  const Tables& tables = trace.tables;
  SeriesOfThreads series(trace, heap);
  RangeTree tree(series, most_ranges);
  for (std::size_t i = 0; i < events.count(); ++i) {
    series.see(i);
    if (events.kind[i] != EventKind::mark || events.address_or_value[i] >= tables.marks.size()) continue;
    const Mark& mark = tables.marks[events.address_or_value[i]];
    const ThreadId thread = tables[events.origin[i]].thread;
    if (mark.phase == MarkPhase::begin) tree.begin(thread, tables[mark.name], i + 1);
    if (mark.phase == MarkPhase::end) tree.end(thread, tables[mark.name]);
  }
  return std::move(tree).take();
}

}  // namespace memreel
