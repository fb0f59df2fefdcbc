#include "viewer/model/series_columns.h"

#include <algorithm>

#include "viewer/model/series_walk.h"

namespace memreel::viewer {

std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap,
                                         std::span<const Nanoseconds> edges) {
  if (edges.size() < 2) return {};
  const auto width = static_cast<std::uint32_t>(edges.size() - 1);
  std::vector<SeriesColumn> columns(width);
  if (document.empty() || edges.back() <= edges.front()) return columns;
  // Events at exactly the first edge belong to the first column.
  std::uint32_t at = document.events_until(edges.front() - Nanoseconds{1});
  const std::uint32_t first = at, last = document.events_until(edges.back());
  const bool by_leaves = (last - first) / width >= 16 * leaf_events;
  if (by_leaves) at = at / leaf_events * leaf_events;
  SeriesWalk walk(document, heap, at);
  for (std::uint32_t x = 0; x < width; ++x) {
    std::uint32_t until = x + 1 == width ? last : document.events_until(edges[x + 1] - Nanoseconds{1}, at);
    if (by_leaves && x + 1 != width) until = until / leaf_events * leaf_events;
    SeriesColumn& column = columns[x];
    column.begin = at;
    column.end = std::max(at, until);
    column.extent = column.end > at ? walk.advance(column.end) : Extent::at(walk.metrics());
    at = column.end;
  }
  return columns;
}

std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap, Nanoseconds begin,
                                         Nanoseconds end, std::uint32_t width) {
  if (end <= begin) return std::vector<SeriesColumn>(width);
  const double step = static_cast<double>((end - begin).count()) / width;
  std::vector<Nanoseconds> edges;
  edges.reserve(width + 1);
  for (std::uint32_t x = 0; x < width; ++x)
    edges.push_back(begin + Nanoseconds{static_cast<std::int64_t>(step * static_cast<double>(x))});
  edges.push_back(end);
  return series_columns(document, heap, edges);
}

}  // namespace memreel::viewer
