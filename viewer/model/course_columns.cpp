#include "viewer/model/course_columns.h"

#include <algorithm>

#include "viewer/model/course_walk.h"

namespace memreel::viewer {

std::vector<CourseColumn> course_columns(const Document& document, const HeapCourse& heap, Nanoseconds begin,
                                         Nanoseconds end, std::uint32_t width) {
  std::vector<CourseColumn> columns(width);
  if (document.empty() || width == 0 || end <= begin) return columns;
  const double step = static_cast<double>((end - begin).count()) / width;
  const auto time_at = [&](std::uint32_t x) {
    return begin + Nanoseconds{static_cast<std::int64_t>(step * static_cast<double>(x))};
  };
  // Events at exactly `begin` belong to the first column.
  std::uint32_t at = document.events_until(begin - Nanoseconds{1});
  const std::uint32_t first = at, last = document.events_until(end);
  const bool by_leaves = (last - first) / width >= 16 * leaf_events;
  if (by_leaves) at = at / leaf_events * leaf_events;
  CourseWalk walk(document, heap, at);
  for (std::uint32_t x = 0; x < width; ++x) {
    std::uint32_t until = x + 1 == width ? last : document.events_until(time_at(x + 1) - Nanoseconds{1}, at);
    if (by_leaves && x + 1 != width) until = until / leaf_events * leaf_events;
    CourseColumn& column = columns[x];
    column.begin = at;
    column.end = std::max(at, until);
    column.extent = column.end > at ? walk.advance(column.end) : Extent::at(walk.figures());
    at = column.end;
  }
  return columns;
}

}  // namespace memreel::viewer
