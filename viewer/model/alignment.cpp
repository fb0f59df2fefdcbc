#include "viewer/model/alignment.h"

#include <algorithm>
#include <cmath>

namespace memreel::viewer {

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
