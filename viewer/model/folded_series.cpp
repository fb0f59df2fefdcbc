#include "viewer/model/folded_series.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

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
  const FoldedHistory& folded = *document.folded;
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
  const FoldedHistory& folded = *document.folded;
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

}  // namespace memreel::viewer
