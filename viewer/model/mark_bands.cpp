// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/mark_bands.h"

#include <algorithm>
#include <cmath>

#include "formats/model/quantity.h"

namespace memreel::viewer {
namespace {

constexpr std::uint32_t most_counted = 20'000;  // ranges visited one by one in a frame
constexpr int most_around = 64;                 // visited to find those that reach into the view

/// Builds bands from ranges added in order of their begin.
class Bands {
 public:
  Bands(const Document& document, const std::function<double(Nanoseconds)>& x_of, const BandLimits& limits)
      : document_(document), x_of_(x_of), limits_(limits), last_(limits.depths, none) {}

  /// Returns its band; null if it is too deep.
  MarkBand* add(std::uint32_t span) {
    const MarkSpan& range = document_.columns.span[span];
    if (range.depth >= limits_.depths) return nullptr;
    const std::uint32_t last_event = document_.span_end(span);
    const Nanoseconds begin = document_.time(range.begin),
                      end = last_event == never ? document_.last_time() : document_.time(last_event);
    const double left = x_of_(begin), right = x_of_(end);
    std::size_t& last = last_[range.depth];
    const auto is_narrow = [&](double width) { return width < limits_.narrowest; };
    if (last != none) {
      MarkBand& before = bands_[last];
      if (is_narrow(right - left) && left - before.right <= limits_.apart &&
          (before.count > 1 || is_narrow(before.right - before.left))) {
        ++before.count;
        before.same_name = before.same_name && before.name == range.name;
        before.end = std::max(before.end, end);
        before.right = std::max(before.right, right);
        return &before;
      }
    }
    last = bands_.size();
    bands_.push_back({.name = range.name,
                      .number = range.number,
                      .depth = range.depth,
                      .begin = begin,
                      .end = end,
                      .left = left,
                      .right = right});
    return &bands_.back();
  }

  /// The ranges that enclose `span` and begin at `first` or later, outermost first.
  void add_around(std::uint32_t span, std::uint32_t first) {
    std::vector<std::uint32_t> around;
    std::uint32_t at = document_.columns.span[span].parent;
    for (int i = 0; i < most_around && at != never && at >= first; ++i, at = document_.columns.span[at].parent)
      around.push_back(at);
    for (auto one = around.rbegin(); one != around.rend(); ++one) add(*one);
  }

  std::vector<MarkBand> take() && { return std::move(bands_); }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  const Document& document_;
  const std::function<double(Nanoseconds)>& x_of_;
  BandLimits limits_;
  std::vector<MarkBand> bands_;
  std::vector<std::size_t> last_;  // the current band of each depth
};

/// Ranges that began before `first` and are open at `event`, by their begin.
std::vector<std::uint32_t> reaching_into(const Document& document, std::uint32_t first, std::uint32_t event) {
  std::vector<std::uint32_t> found;
  const auto see = [&](std::uint32_t span) {
    if (document.span_end(span) >= event) found.push_back(span);
  };
  std::uint32_t span = first;
  for (int i = 0; i < most_around && span > 0; ++i) see(--span);
  if (span > 0)
    for (int i = 0; i < most_around && span != never; ++i, span = document.columns.span[span].parent) see(span);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

std::vector<MarkBand> mark_bands(const Document& document, std::uint32_t first_event, std::uint32_t end_event,
                                 const std::function<double(Nanoseconds)>& x_of,
                                 const std::function<Nanoseconds(double)>& time_at, const BandLimits& limits) {
  Bands bands(document, x_of, limits);
  const auto spans = static_cast<std::uint32_t>(document.columns.span.size());
  std::uint32_t span = document.spans_before(first_event);
  for (const std::uint32_t before : reaching_into(document, span, first_event)) bands.add(before);
  const bool too_many = document.spans_before(end_event) - span > most_counted;
  while (span < spans && document.columns.span[span].begin < end_event) {
    const double left = x_of(document.time(document.columns.span[span].begin));
    MarkBand* const band = bands.add(span);
    ++span;
    if (!too_many || (band != nullptr && band->right - left >= 1)) continue;
    const std::uint32_t next = document.spans_before(document.events_until(time_at(std::floor(left) + 1)));
    if (next <= span) continue;
    if (band != nullptr) band->counted = false;
    if (next < spans) bands.add_around(next, span);
    span = next;
  }
  return std::move(bands).take();
}

std::string title_of(const Tables& tables, const MarkBand& band) {
  const std::string& name = tables[band.name];
  if (band.count == 1) {
    const bool is_numbered = !name.empty() && name.back() >= '0' && name.back() <= '9';
    return is_numbered ? name : name + " " + text_of(std::uint64_t{band.number});
  }
  return text_of(std::uint64_t{band.count}) + (band.counted ? " \u00D7 " : " and more \u00D7 ") +
         (band.same_name ? name : "ranges");
}

}  // namespace memreel::viewer
