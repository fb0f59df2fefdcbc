// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/heap_series.h"

#include <algorithm>

namespace memreel::viewer {

SeriesWalk::SeriesWalk(const Document& document, const HeapSeries& heap, std::uint32_t events)
    : document_(document), heap_(heap) {
  begin_at_leaf(events / leaf_events);
  while (at_ < events) step();
}

void SeriesWalk::begin_at_leaf(std::uint32_t leaf) {
  at_ = leaf * leaf_events;
  metrics_ = leaf == 0 ? Metrics{} : heap_.pyramid.leaf(leaf - 1).last;
  other_ = document_.others_before(at_);
}

void SeriesWalk::apply_allocation(std::uint32_t id, bool begins) {
  if (document_.heap_of(document_.origin_of(id)) != heap_.heap) return;
  const std::uint64_t size = document_.size_of(id).count;
  if (begins) {
    part(metrics_, Metric::live) += size;
    part(metrics_, Metric::held) += size;
    return;
  }
  if (document_.requested(id) == at_) part(metrics_, Metric::live) -= size;
  if (document_.completed(id) == at_) part(metrics_, Metric::held) -= size;
}

void SeriesWalk::step() {
  const Columns& columns = document_.columns;
  const auto others = static_cast<std::uint32_t>(columns.other.size());
  for (; other_ < others && columns.other[other_].at == at_; ++other_) {
    const OtherEvent& row = columns.other[other_];
    if (row.event.kind == EventKind::free_completed && row.event.allocation != AllocationId::none)
      apply_allocation(index(row.event.allocation), false);
    if (row.reserved_change != 0 && document_.heap_of(row.event.origin) == heap_.heap)
      part(metrics_, Metric::reserved) += static_cast<std::uint64_t>(row.reserved_change);
  }
  const std::uint64_t target = columns.target[at_];
  if (target_kind(target) != EventTarget::other)
    apply_allocation(target_row(target), target_kind(target) == EventTarget::alloc);
  settle(metrics_);
  ++at_;
}

Extent SeriesWalk::advance(std::uint32_t end) {
  Extent extent;
  bool is_first = true;
  const auto add = [&](const Extent& part) {
    if (is_first)
      extent = part;
    else
      extent.add(part);
    is_first = false;
  };
  while (at_ < end) {
    const std::uint32_t leaf = at_ / leaf_events, leaves = end / leaf_events;
    if (at_ % leaf_events == 0 && leaf < leaves) {
      add(heap_.pyramid.over(leaf, leaves));
      begin_at_leaf(leaves);
    } else {
      step();
      add(Extent::at(metrics_));
    }
  }
  return extent;
}

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
