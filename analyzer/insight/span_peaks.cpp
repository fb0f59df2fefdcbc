// SPDX-License-Identifier: Apache-2.0
#include "analyzer/insight/span_peaks.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

namespace memreel {
namespace {

/// The live bytes of one heap over the trace, and their maximum since any earlier event.
class LiveSeries {
 public:
  explicit LiveSeries(const Trace& trace, HeapId heap) : trace_(trace), heap_(heap) {}

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

/// Names must outlive this object; the trace owns them.
class RangeTree {
 public:
  RangeTree(const LiveSeries& series, std::size_t most) : series_(series), most_(most) {}

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
    open.push_back({.node = entry->second, .name = name, .events = events, .live = series_.live()});
  }

  /// Ignore ends of ranges that began before the recording.
  void end(ThreadId thread, std::string_view name) {
    constexpr std::ptrdiff_t farthest = 64;  // ranges that overlap instead of nesting
    std::vector<Open>& open = open_[thread];
    const auto last = open.end() - std::min<std::ptrdiff_t>(farthest, std::ssize(open));
    for (auto at = open.end(); at != last;)
      if ((--at)->name == name) {
        close(*at);
        open.erase(at);
        return;
      }
  }

  std::vector<RangePeak> take() && {
    for (const auto& [thread, open] : open_)
      for (const Open& range : open) close(range);
    return std::move(ranges_);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct Open {
    std::size_t node = none;
    std::string_view name;
    std::uint64_t events = 0;
    Bytes live;
  };

  void close(const Open& range) {
    if (range.node == none) return;
    RangePeak& node = ranges_[range.node];
    const SpanPeak peak = series_.highest_since(range.events, range.live);
    ++node.count;
    if (node.count == 1 || peak.live > node.peak.live) node.peak = peak;
    node.rise = std::max(node.rise, peak.live - range.live);
  }

  const LiveSeries& series_;
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
  LiveSeries series(trace, heap);
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
