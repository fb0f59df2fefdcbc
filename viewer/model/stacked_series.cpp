// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/stacked_series.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>

#include "analyzer/describe/live_groups.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

bool is_sound(const FoldedHistory& folded) {
  return !folded.empty() && folded.interval > Nanoseconds{} && folded.begin <= folded.until;
}

/// When the interval with this number begins; the end if the file claims impossibly many.
Nanoseconds begin_of(const FoldedHistory& folded, std::uint64_t interval) {
  const auto begin = static_cast<std::uint64_t>(folded.begin.count());
  const std::uint64_t span = static_cast<std::uint64_t>(folded.until.count()) - begin;
  const auto width = static_cast<std::uint64_t>(folded.interval.count());
  if (interval > span / width) return folded.until;
  return Nanoseconds{static_cast<std::int64_t>(begin + interval * width)};
}

}  // namespace

std::vector<FoldedPoint> folded_series(const Document& document, HeapId heap) {
  const FoldedHistory& folded = document.trace->folded;
  std::vector<FoldedPoint> series;
  if (!is_sound(folded)) return series;
  series.push_back({.time = folded.begin, .live = {}});
  std::int64_t live = 0;  // negative only between the rows of an interval, or in a damaged file
  for (std::size_t row = 0; row < folded.rows.size();) {
    const std::uint32_t interval = folded.rows[row].interval;
    for (; row < folded.rows.size() && folded.rows[row].interval == interval; ++row) {
      const FoldedRow& of = folded.rows[row];
      if (of.heap != heap) continue;
      live = static_cast<std::int64_t>(static_cast<std::uint64_t>(live) + of.allocated.count - of.freed.count);
    }
    const Nanoseconds end = std::max(series.back().time, begin_of(folded, std::uint64_t{interval} + 1));
    series.push_back({.time = end, .live = {static_cast<std::uint64_t>(std::max<std::int64_t>(live, 0))}});
  }
  return series;
}

std::optional<Bytes> folded_live(const std::vector<FoldedPoint>& series, Nanoseconds time) {
  if (series.empty() || time < series.front().time || time > series.back().time) return std::nullopt;
  return std::prev(std::ranges::upper_bound(series, time, {}, &FoldedPoint::time))->live;
}

std::optional<std::vector<StackWeight>> weigh_folded(const Document& document, HeapId heap, Nanoseconds begin,
                                                     Nanoseconds end, const Sieve* sieve, const Progress& progress) {
  const FoldedHistory& folded = document.trace->folded;
  std::unordered_map<StackId, StackWeight> by_stack;
  if (!is_sound(folded)) return std::vector<StackWeight>();
  for (std::size_t row = 0; row < folded.rows.size(); ++row) {
    if (row % (1U << 16U) == 0 && progress.cancelled()) return std::nullopt;
    const FoldedRow& of = folded.rows[row];
    if (of.heap != heap || of.allocations == 0) continue;
    if (begin_of(folded, of.interval) > end || begin_of(folded, std::uint64_t{of.interval} + 1) <= begin) continue;
    if (sieve != nullptr && !sieve->passes(of.stack)) continue;
    StackWeight& weight = by_stack[of.stack];
    weight.stack = of.stack;
    weight.bytes += of.allocated.count;
    weight.count += of.allocations;
  }
  std::vector<StackWeight> weights;
  for (const auto& [stack, weight] : by_stack) weights.push_back(weight);
  std::ranges::sort(weights, [](const StackWeight& a, const StackWeight& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : index(a.stack) < index(b.stack);
  });
  return weights;
}

namespace {

constexpr std::uint32_t most_stretches = 1U << 16U;
constexpr std::uint8_t other_heap = 0xFF;

/// The key of each allocation. To be called in order of their begins.
class Keys {
 public:
  Keys(const Document& document, const SplitQuery& query, const Classification* classification)
      : document_(document), by_(query.by), classification_(classification) {
    if (by_ == SplitBy::step) step_ends_ = steps_of(document, query.heap).ends;
  }

  std::uint32_t key_of(std::uint32_t allocation, std::uint32_t begin) {
    const Origin& origin = (*document_.tables)[document_.origin_of(allocation)];
    switch (by_) {
      case SplitBy::category:
        return static_cast<std::uint32_t>(classification_ == nullptr ? Category::unknown
                                                                     : classification_->category(allocation));
      case SplitBy::phase:
        return static_cast<std::uint32_t>(classification_ == nullptr ? Phase::other
                                                                     : classification_->phase(allocation));
      case SplitBy::stack:
        return index(document_.site_of(allocation));
      case SplitBy::pool:
        return index(origin.pool);
      case SplitBy::stream:
        return index(origin.stream);
      case SplitBy::thread:
        return index(origin.thread);
      case SplitBy::tag:
        return index(tag_at(begin, origin.thread));
      case SplitBy::step:
        while (step_ < step_ends_.size() && step_ends_[step_] < begin) ++step_;
        return static_cast<std::uint32_t>(step_);
      case SplitBy::nothing:
        break;
    }
    return 0;
  }

 private:
  StringId tag_at(std::uint32_t event, ThreadId thread) {
    const Columns& columns = document_.columns;
    for (; span_ < columns.span.size() && columns.span[span_].begin < event; ++span_) {
      const OriginId origin = document_.trace->events.origin(columns.span[span_].begin);
      open_[(*document_.tables)[origin].thread].push_back(span_);
    }
    std::vector<std::uint32_t>& open = open_[thread];
    std::erase_if(open, [&](std::uint32_t span) { return document_.span_end(span) < event; });
    return open.empty() ? StringId::none : columns.span[open.back()].name;
  }

  const Document& document_;
  SplitBy by_;
  const Classification* classification_;
  std::vector<std::uint32_t> step_ends_;
  std::size_t step_ = 0;
  std::map<ThreadId, std::vector<std::uint32_t>> open_;  // ranges, innermost last
  std::uint32_t span_ = 0;                               // the next one to begin
};

/// Calls `take` with each matching allocation, the event that begins it, and its key. False when cancelled.
template <class Take>
bool for_each_allocation(const Document& document, Keys keys, const SplitQuery& query, const Progress& progress,
                         const Take& take) {
  for (std::uint32_t id = 0; id < document.allocation_count(); ++id) {
    if (id % (1U << 16U) == 0 && progress.cancelled()) return false;
    if (document.heap_of(document.origin_of(id)) != query.heap) continue;
    const std::uint32_t begin = document.begin_of(id);
    if (!query.sieve || query.sieve->passes_but_category(id)) take(id, begin, keys.key_of(id, begin));
  }
  return true;
}

/// The keys that hold the most for the longest, so that no colour is wasted on invisible groups. None when cancelled.
std::optional<std::vector<std::uint32_t>> ranked_keys(const Document& document, const Keys& all,
                                                      const SplitQuery& query, const Progress& progress) {
  std::unordered_map<std::uint32_t, double> weights;
  const bool weighed = for_each_allocation(
      document, all, query, progress, [&](std::uint32_t id, std::uint32_t begin, std::uint32_t key) {
        const std::uint32_t end = std::min(document.requested(id), document.event_count());
        weights[key] += static_cast<double>(document.size_of(id).count) * (end - begin);
      });
  if (!weighed) return std::nullopt;
  std::vector<std::pair<double, std::uint32_t>> ranking;
  for (const auto& [key, weight] : weights) ranking.emplace_back(-weight, key);
  std::ranges::sort(ranking);
  std::vector<std::uint32_t> keys;
  for (const auto& [weight, key] : ranking) keys.push_back(key);
  return keys;
}

/// What the groups hold along the trace, and what they held at the maximum since the last query.
class GroupsHeld {
 public:
  GroupsHeld(const Document& document, std::vector<std::uint8_t> group_of, std::size_t groups)
      : document_(document), group_of_(std::move(group_of)), now_(groups), at_highest_(groups) {}

  void see(std::uint32_t id, std::uint32_t event, bool begins) {
    const std::uint8_t group = group_of_[id];
    if (group == other_heap) return;
    const std::uint64_t size = document_.size_of(id).count;
    if (begins) {
      now_[group] += size;
      total_ += size;
    } else if (document_.requested(id) == event) {
      now_[group] -= size;
      total_ -= size;
    }
  }

  /// To be called after all changes of an event.
  void settle() {
    if (total_ < highest_) return;
    highest_ = total_;
    at_highest_ = now_;
  }

  std::vector<std::uint64_t> take_highest() {
    highest_ = total_;
    return std::exchange(at_highest_, now_);
  }

 private:
  const Document& document_;
  std::vector<std::uint8_t> group_of_;
  std::vector<std::uint64_t> now_, at_highest_;
  std::uint64_t total_ = 0, highest_ = 0;
};

/// Steps and phases are stacked in their order; categories in theirs.
void arrange(std::span<std::uint32_t> keys, SplitBy by) {
  const auto place = [](std::uint32_t key) {
    return std::ranges::find(category_styles(), static_cast<Category>(key), &CategoryStyle::category);
  };
  if (by == SplitBy::step || by == SplitBy::phase) std::ranges::sort(keys);
  if (by == SplitBy::category) std::ranges::sort(keys, {}, place);
}

/// Fills in the bytes of the groups. False when cancelled.
bool follow(const Document& document, GroupsHeld& held, StackedSeries& series, const Progress& progress) {
  std::uint32_t other = 0;
  const auto others = static_cast<std::uint32_t>(document.columns.other.size());
  for (std::uint32_t e = 0; e < document.event_count(); ++e) {
    if (e % (1U << 16U) == 0) {
      if (progress.cancelled()) return false;
      progress.set(static_cast<double>(e) / document.event_count());
    }
    if (const auto id = document.allocation_of(e)) held.see(*id, e, document.kind(e) == EventKind::alloc);
    for (; other < others && document.columns.other[other].at == e; ++other)
      if (const std::uint32_t ended = document.columns.other[other].displaced; ended != never)
        held.see(ended, e, false);
    held.settle();
    if ((e + 1) % series.stride == 0 || e + 1 == document.event_count()) {
      const std::vector<std::uint64_t> bytes = held.take_highest();
      for (std::size_t g = 0; g < bytes.size(); ++g) series.groups[g].bytes.push_back(bytes[g]);
      series.totals.push_back(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
    }
  }
  return true;
}

}  // namespace

std::optional<StackedSeries> split_series(const Document& document, const SplitQuery& query, const Progress& progress,
                                          const Classification* classification) {
  const Keys all(document, query, classification);
  auto keys = ranked_keys(document, all, query, progress);
  if (!keys) return std::nullopt;
  const std::size_t most = query.by == SplitBy::category ? category_count : StackedSeries::most_groups;
  const std::size_t named = std::min(keys->size(), most);
  arrange(std::span(*keys).first(named), query.by);

  StackedSeries series;
  series.stride = std::max(1U, document.event_count() / most_stretches);
  std::unordered_map<std::uint32_t, std::uint8_t> groups;
  for (std::size_t g = 0; g < named; ++g) {
    const std::uint32_t key = (*keys)[g];
    groups[key] = static_cast<std::uint8_t>(g);
    series.groups.push_back({.key = key, .label = split_label(*document.tables, key, query.by)});
  }
  if (keys->size() > named) series.groups.push_back({.label = "everything else", .is_rest = true});

  // Ends come in any order, so each allocation's key is kept until then.
  std::vector<std::uint8_t> group_of(document.allocation_count(), other_heap);
  const auto rest = static_cast<std::uint8_t>(named);
  const bool grouped =
      for_each_allocation(document, all, query, progress, [&](std::uint32_t id, std::uint32_t, std::uint32_t key) {
        const auto found = groups.find(key);
        group_of[id] = found == groups.end() ? rest : found->second;
      });
  if (!grouped) return std::nullopt;
  GroupsHeld held(document, std::move(group_of), series.groups.size());
  if (!follow(document, held, series, progress)) return std::nullopt;
  return series;
}

std::vector<std::optional<std::size_t>> fullest_stretches(const StackedSeries& groups,
                                                          const std::vector<SeriesColumn>& columns) {
  std::vector<std::optional<std::size_t>> fullest(columns.size());
  const std::vector<std::uint64_t>& totals = groups.totals;
  for (std::size_t x = 0; x < columns.size() && !totals.empty(); ++x) {
    if (columns[x].end == 0) continue;
    const auto stretch_of = [&](std::uint32_t event) {
      return static_cast<std::ptrdiff_t>(std::min<std::size_t>(event / groups.stride, totals.size() - 1));
    };
    const auto first = totals.begin() + stretch_of(std::max(columns[x].begin, 1U) - 1);
    const auto last = totals.begin() + stretch_of(columns[x].end - 1);
    fullest[x] = static_cast<std::size_t>(std::max_element(first, std::next(last)) - totals.begin());
  }
  return fullest;
}

}  // namespace memreel::viewer
