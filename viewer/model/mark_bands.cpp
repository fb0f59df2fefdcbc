#include "viewer/model/mark_bands.h"

#include <algorithm>
#include <cmath>

namespace memreel::viewer {
namespace {

constexpr std::uint32_t most_counted = 20'000;  // ranges that are looked at one by one in a frame

}  // namespace

std::vector<MarkBand> mark_bands(const Document& document, std::uint32_t first_event, std::uint32_t end_event,
                                 const std::function<double(Nanoseconds)>& x_of,
                                 const std::function<Nanoseconds(double)>& time_at, const BandLimits& limits) {
  std::vector<MarkBand> bands;
  const auto spans = static_cast<std::uint32_t>(document.columns.span.size());
  std::uint32_t span = document.spans_before(first_event);
  if (span > 0) --span;
  const bool too_many = document.spans_before(end_event) - span > most_counted;
  while (span < spans && document.columns.span[span].begin < end_event) {
    const MarkSpan& range = document.columns.span[span];
    const std::uint32_t last = document.span_end(span);
    ++span;
    if (range.depth != 0) continue;
    const Nanoseconds begin = document.time(range.begin),
                      end = last == never ? document.last_time() : document.time(last);
    const double left = x_of(begin), right = x_of(end);
    MarkBand* const before = bands.empty() ? nullptr : &bands.back();
    const auto is_narrow = [&](double width) { return width < limits.narrowest; };
    if (before != nullptr && is_narrow(right - left) && left - before->right <= limits.apart &&
        (before->count > 1 || is_narrow(before->right - before->left))) {
      ++before->count;
      before->same_name = before->same_name && before->name == range.name;
      before->end = std::max(before->end, end);
      before->right = std::max(before->right, right);
    } else {
      bands.push_back({.name = range.name, .begin = begin, .end = end, .left = left, .right = right});
    }
    if (!too_many || right - left >= 1) continue;
    const std::uint32_t next = document.spans_before(document.events_until(time_at(std::floor(left) + 1)));
    if (next <= span) continue;
    bands.back().counted = false;
    span = next;
  }
  return bands;
}

}  // namespace memreel::viewer
