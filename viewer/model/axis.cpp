// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/axis.h"

#include <algorithm>
#include <cmath>

#include "analyzer/analysis/analysis.h"
#include "viewer/model/findings.h"

namespace memreel::viewer {

AxisScale AxisScale::by_events(std::shared_ptr<const Document> document) {
  AxisScale scale;
  if (!document->empty()) scale.document_ = std::move(document);
  return scale;
}

AxisScale AxisScale::by_steps(const SideScale& steps) {
  AxisScale scale;
  scale.steps_ = steps;
  return scale;
}

double AxisScale::position_of(Nanoseconds time) const {
  if (steps_) return steps_->position_of(time);
  if (!document_) return static_cast<double>(time.count());
  const std::uint32_t events = document_->events_until(time);
  if (events == 0 || events == document_->event_count()) return events;
  // Interpolates linearly between two events.
  const Nanoseconds before = document_->time(events - 1), after = document_->time(events);
  const auto gap = static_cast<double>(std::max((after - before).count(), std::int64_t{1}));
  return events + std::clamp(static_cast<double>((time - before).count()) / gap, 0.0, 1.0) * 0.999;
}

Nanoseconds AxisScale::time_at(double position) const {
  if (steps_) return steps_->time_at(position);
  if (!document_) return Nanoseconds{static_cast<std::int64_t>(position)};
  const std::uint32_t count = document_->event_count();
  if (position < 1) return document_->time(0) - Nanoseconds{position < 0.5 ? 1 : 0};
  if (position >= count) return document_->last_time() + Nanoseconds{position > count ? 1 : 0};
  const auto events = static_cast<std::uint32_t>(position);
  const Nanoseconds before = document_->time(events - 1), after = document_->time(events);
  const double within = position - events;
  return before + Nanoseconds{static_cast<std::int64_t>(
                      within * static_cast<double>(std::max<std::int64_t>((after - before).count(), 0)))};
}

std::vector<Nanoseconds> AxisScale::edges(Nanoseconds begin, Nanoseconds end, std::uint32_t width) const {
  std::vector<Nanoseconds> edges;
  edges.reserve(width + 1);
  const double from = position_of(begin), length = position_of(end) - from;
  for (std::uint32_t x = 0; x < width; ++x) {
    // Times relative to the beginning: absolute nanoseconds have more digits than a double.
    const Nanoseconds at =
        by() == AxisBy::time
            ? begin + Nanoseconds{static_cast<std::int64_t>(static_cast<double>((end - begin).count()) * x / width)}
            : time_at(from + length * x / width);
    edges.push_back(std::clamp(at, edges.empty() ? begin : edges.back(), end));
  }
  edges.push_back(end);
  return edges;
}

Steps steps_of(const Document& document, HeapId heap) {
  const Columns& columns = document.columns;
  std::vector<MarkEvent> marks;
  const Events& events = document.trace->events;
  for (std::size_t i = 0; i < columns.notable.size(); ++i)
    if (const std::uint32_t at = columns.other[columns.notable[i]].at; events.kind(at) == EventKind::mark)
      marks.push_back(
          {.event = at, .mark = MarkId{static_cast<std::uint32_t>(events.value(at))}, .origin = events.origin(at)});
  Steps marked = find_steps(*document.tables, marks, heap);
  const bool is_enough = !marked.ends.empty() && !marked.are_of_optimizers();
  if (is_enough || document.whole == nullptr || !can_be_classified(document)) return marked;
  const Analysis analysis(document.whole->trace(),
                          {.leaks = {}, .activity = document.whole->activity(), .on_replay = {}});
  return analysis.steps(heap);
}

SideScale SideScale::by_time(Nanoseconds zero) { return SideScale({.begins = {zero}, .per_position = {1}}); }

SideScale SideScale::by_step(const Document& document, const Steps& steps) {
  Pieces pieces{.begins = {document.first_time()}, .per_position = {}};
  for (const std::uint32_t end : steps.ends) {
    const Nanoseconds begin = pieces.begins.back(), until = std::max(document.time(end), begin);
    pieces.per_position.push_back(std::max(1.0, static_cast<double>((until - begin).count())));
    pieces.begins.push_back(until);
  }
  pieces.per_position.push_back(pieces.per_position.back());
  return SideScale(std::move(pieces));
}

double SideScale::position_of(Nanoseconds time) const {
  const auto& [begins, per_position] = *pieces_;
  const auto after = std::ranges::upper_bound(begins, time);
  const auto at = after == begins.begin() ? 0 : static_cast<std::size_t>(after - begins.begin()) - 1;
  double within = static_cast<double>((time - begins[at]).count()) / per_position[at];
  if (at + 1 < begins.size()) within = std::min(within, 1.0);
  return static_cast<double>(at) + within + offset_;
}

Nanoseconds SideScale::time_at(double position) const {
  const auto& [begins, per_position] = *pieces_;
  const double wanted = position - offset_;
  const auto last = static_cast<double>(begins.size() - 1);
  const auto at = static_cast<std::size_t>(std::clamp(std::floor(wanted), 0.0, last));
  constexpr double most = 4e18;  // 130 years
  const double within = (wanted - static_cast<double>(at)) * per_position[at];
  const double since = static_cast<double>((begins[at] - begins.front()).count()) + within;
  return begins.front() + Nanoseconds{static_cast<std::int64_t>(std::clamp(since, -most, most))};
}

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
    const OtherRow& row = columns.other[other_];
    if (row.displaced != never) apply_allocation(row.displaced, false);
    if (row.reserved_change != 0 && document_.heap_of(document_.trace->events.origin(at_)) == heap_.heap)
      part(metrics_, Metric::reserved) += static_cast<std::uint64_t>(row.reserved_change);
  }
  if (const auto id = document_.allocation_of(at_)) apply_allocation(*id, document_.kind(at_) == EventKind::alloc);
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
