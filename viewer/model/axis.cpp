// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/axis.h"

#include <algorithm>
#include <cmath>

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
  for (std::size_t i = 0; i < columns.notable.size(); ++i)
    if (const OtherEvent& row = columns.other[columns.notable[i]]; row.event.kind == EventKind::mark)
      marks.push_back(
          {.event = row.at, .mark = MarkId{static_cast<std::uint32_t>(row.event.value)}, .origin = row.event.origin});
  return find_steps(*document.tables, marks, heap);
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

}  // namespace memreel::viewer
