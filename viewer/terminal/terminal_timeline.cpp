// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/terminal_timeline.h"

#include <algorithm>
#include <cmath>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/model/mark_bands.h"

namespace memreel::viewer::terminal {
namespace {

ChartLayer layer_of(const StackedSeries& groups, std::size_t g, SplitBy by, const Look& look) {
  const StackedSeries::Group& group = groups.groups[g];
  if (group.is_rest) return {look.faint(), 'z'};
  if (by == SplitBy::category) {
    const auto category = static_cast<Category>(group.key);
    return {look.category(category), letter_of(category)};
  }
  return {look.hue(g), static_cast<char>('a' + g % 25)};
}

/// A round number of which `room / length` are at least `apart` positions apart.
double round_step(double length, double most) {
  const double least = length / std::max(most, 1.0);
  const double power = std::pow(10.0, std::floor(std::log10(std::max(least, 1e-9))));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

void draw_axis(Screen& screen, const Area& area, const Document& document, const Selection& selection,
               const Timeline& timeline, const Look& look) {
  const AxisScale& axis = selection.axis;
  // Nanoseconds since the epoch are too many for a double.
  const auto position_of = [&](Nanoseconds time) {
    return axis.by() == AxisBy::time ? static_cast<double>((time - document.first_time()).count())
                                     : axis.position_of(time);
  };
  const double begin = position_of(timeline.edges.front()), end = position_of(timeline.edges.back());
  if (!(end > begin)) return;
  constexpr int apart = 18;
  const double most = static_cast<double>(area.width) / apart;
  const double step = std::max(1.0, round_step(end - begin, most));
  // Event 0 is at position 1.
  const double zero = axis.by() == AxisBy::event ? 1 : 0;
  double first = std::ceil((begin - zero) / step);
  if (axis.by() != AxisBy::time) first = std::max(first, 0.0);
  int free = area.left;
  for (int tick = 0; tick < area.width; ++tick) {
    const double at = (first + tick) * step;
    if (at + zero >= end) break;
    const int x = area.left + static_cast<int>((at + zero - begin) / (end - begin) * area.width);
    std::string label;
    if (axis.by() == AxisBy::time)
      label = time_text(Nanoseconds{static_cast<std::int64_t>(at)},
                        Nanoseconds{std::max<std::int64_t>(static_cast<std::int64_t>(step), 1)});
    else if (axis.by() == AxisBy::event)
      label = "event " + text_of(static_cast<std::uint64_t>(at));
    else
      label = "step " + text_of(static_cast<std::uint64_t>(at) + 1);
    if (x < free || x + width_of(label) + 2 > area.right()) continue;
    screen.put(x, area.top, U'\u2502', {.ink = look.faint()});
    free = screen.text(x + 1, area.top, label, {.ink = look.faint()}) + 1;
  }
}

/// Ranges between marks as names behind their beginnings, and failures.
void draw_marks(Screen& screen, const Area& area, const Document& document, const Selection& selection,
                const Timeline& timeline, const Look& look) {
  const auto x_of = [&](Nanoseconds time) {
    const auto after = std::ranges::upper_bound(timeline.edges, time);
    const auto column = after - timeline.edges.begin() - 1;
    return static_cast<double>(std::clamp<std::ptrdiff_t>(column, -1, area.width));
  };
  const auto time_at = [&](double x) {
    const auto column = static_cast<std::size_t>(std::clamp(std::floor(x), 0.0, static_cast<double>(area.width)));
    return timeline.edges[std::min(column, timeline.edges.size() - 1)];
  };
  const auto [first, end] = selection.viewed(document);
  const BandLimits limits{.narrowest = 4, .apart = 1, .depths = 1};
  for (const MarkBand& band : mark_bands(document, first, end, x_of, time_at, limits)) {
    const int left = area.left + static_cast<int>(std::max(band.left, 0.0));
    const int right = area.left + static_cast<int>(std::min(band.right, static_cast<double>(area.width)));
    if (right <= area.left || left >= area.right()) continue;
    screen.put(left, area.top, U'\u2502', {.ink = look.accent()});
    const int room = right - left - 1;
    if (room > 1) screen.text(left + 1, area.top, fitting(title_of(*document.tables, band), room), {}, room);
  }
  const ColumnView<std::uint32_t>& instants = document.columns.instant;
  const bool named = document.columns.span.size() == 0;
  int free = area.left;
  for (std::uint32_t row = document.rows_before(instants, first); row < instants.size();) {
    const OtherEvent mark = document.other(instants[row]);
    if (mark.at >= end) break;
    const auto column = static_cast<int>(x_of(document.time(mark.at)));
    const int x = area.left + column;
    if (x >= area.left && x < area.right()) {
      screen.put(x, area.top, U'\u2502', {.ink = look.accent()});
      const std::string& name =
          (*document.tables)[(*document.tables)[MarkId{static_cast<std::uint32_t>(mark.event.value)}].name];
      if (named && x >= free) free = screen.text(x + 1, area.top, fitting(name, 12), {}, area.right() - x - 1) + 1;
    }
    row = std::max(row + 1, document.rows_before(instants, document.events_until(time_at(column + 1.0))));
  }
  const ColumnView<std::uint32_t>& failures = document.columns.failure;
  for (std::uint32_t row = document.rows_before(failures, first); row < failures.size();) {
    const OtherEvent failure = document.other(failures[row]);
    if (failure.at >= end) break;
    const auto column = static_cast<int>(x_of(document.time(failure.at)));
    screen.put(area.left + std::clamp(column, 0, area.width - 1), area.top, U'!', {.ink = look.alarm(), .bold = true});
    row = std::max(row + 1, document.rows_before(failures, document.events_until(time_at(column + 1.0))));
  }
}

void draw_line_at(Screen& screen, const Area& plot, const Timeline& timeline, std::uint32_t events, char32_t glyph,
                  Colour ink) {
  const auto column = timeline.column_of(events);
  if (!column) return;
  const int x = plot.left + static_cast<int>(*column);
  for (int y = plot.top; y < plot.bottom(); ++y) {
    Style style = screen.at(x, y).style;
    style.ink = ink;
    style.ground = {};
    style.bold = true;
    screen.put(x, y, glyph, style);
  }
}

/// Brackets at the ends that are in view.
void draw_range(Screen& screen, const Area& plot, const Timeline& timeline, const TimeRange& range, const Look& look) {
  const auto bracket = [&](Nanoseconds time, char32_t glyph, bool is_end) {
    if (time < timeline.edges.front() || time > timeline.edges.back()) return;
    const auto after =
        is_end ? std::ranges::lower_bound(timeline.edges, time) : std::ranges::upper_bound(timeline.edges, time);
    const int column = static_cast<int>(after - timeline.edges.begin()) - 1;
    const int x = plot.left + std::clamp(column, 0, plot.width - 1);
    for (int y = plot.top; y < plot.bottom(); ++y) screen.put(x, y, glyph, {.ink = look.accent(), .bold = true});
  };
  bracket(range.begin, U'[', false);
  bracket(range.end, U']', true);
}

}  // namespace

std::optional<std::size_t> Timeline::column_of(std::uint32_t events) const {
  if (columns.empty()) return std::nullopt;
  // The state before the first event is that of the first column.
  const std::uint32_t wanted = std::max(events, 1U);
  for (std::size_t x = 0; x < columns.size(); ++x)
    if (columns[x].begin < wanted && wanted <= columns[x].end) return x;
  return std::nullopt;
}

std::optional<std::uint32_t> Timeline::instant_of(const Document& document, const HeapSeries& series,
                                                  std::size_t column) const {
  if (column >= columns.size() || columns[column].begin >= columns[column].end) return std::nullopt;
  return document.highest(series, Metric::live, columns[column].begin, columns[column].end) + 1;
}

Timeline timeline_of(const Document& document, const Selection& selection, int width) {
  Timeline timeline;
  const HeapSeries* const series = document.series(selection.heap);
  if (document.empty() || series == nullptr || width < 1) return timeline;
  timeline.edges = selection.axis.edges(selection.view.begin, selection.view.end, static_cast<std::uint32_t>(width));
  timeline.columns = series_columns(document, *series, timeline.edges);
  return timeline;
}

std::optional<std::uint32_t> moved_cursor(const Document& document, const Selection& selection,
                                          const Timeline& timeline, int by) {
  const HeapSeries* const series = document.series(selection.heap);
  const auto now = timeline.column_of(selection.cursor);
  if (series == nullptr || timeline.columns.empty()) return std::nullopt;
  const auto count = static_cast<std::int64_t>(timeline.columns.size());
  // A cursor out of view comes back at the side that it is on.
  const bool is_before = timeline.columns.front().begin >= selection.cursor;
  std::int64_t at = now ? static_cast<std::int64_t>(*now) + by : is_before ? 0 : count - 1;
  const int direction = by < 0 ? -1 : 1;
  if (now && by != direction) at = std::clamp<std::int64_t>(at, 0, count - 1);
  for (; at >= 0 && at < count; at += direction)
    if (const auto instant = timeline.instant_of(document, *series, static_cast<std::size_t>(at));
        instant && *instant != selection.cursor)
      return instant;
  return std::nullopt;
}

Chart chart_of(const Timeline& timeline, const StackedSeries* groups, SplitBy by, const Look& look) {
  Chart chart;
  chart.columns.resize(timeline.columns.size());
  for (std::size_t x = 0; x < timeline.columns.size(); ++x) {
    const Extent& extent = timeline.columns[x].extent;
    chart.columns[x].reserved = value_of(extent.max, Metric::reserved);
    chart.top = std::max({chart.top, chart.columns[x].reserved, value_of(extent.max, Metric::live)});
    if (groups == nullptr) chart.columns[x].parts = {value_of(extent.max, Metric::live)};
  }
  if (groups == nullptr) {
    chart.layers = {{Look::live(), '#'}};
    return chart;
  }
  for (std::size_t g = 0; g < groups->groups.size(); ++g) chart.layers.push_back(layer_of(*groups, g, by, look));
  const auto fullest = fullest_stretches(*groups, timeline.columns);
  for (std::size_t x = 0; x < timeline.columns.size(); ++x)
    for (const StackedSeries::Group& group : groups->groups)
      chart.columns[x].parts.push_back(fullest[x] ? group.bytes[*fullest[x]] : 0);
  return chart;
}

void draw_timeline(Screen& screen, const Area& area, const Document& document, const Selection& selection,
                   const Timeline& timeline, const StackedSeries* groups, SplitBy by, const Look& look) {
  const Area plot{area.left + timeline_gutter, area.top, area.width - timeline_gutter,
                  area.height - timeline_rows_below};
  if (timeline.columns.empty() || plot.width < 1 || plot.height < 1) return;
  const Chart chart = chart_of(timeline, groups, by, look);
  draw_chart(screen, plot, chart, look);
  const auto scale = [&](int y, std::uint64_t bytes) {
    screen.text_before(plot.left - 1, y, text_of(Bytes{bytes}), {.ink = look.faint()});
  };
  scale(plot.top, chart.top);
  if (plot.height >= 5) scale(plot.top + plot.height / 2, chart.top - chart.top / 2);
  scale(plot.bottom() - 1, 0);
  if (selection.kept) draw_line_at(screen, plot, timeline, *selection.kept, U'\u2506', look.accent());
  if (selection.marked) draw_range(screen, plot, timeline, *selection.marked, look);
  draw_line_at(screen, plot, timeline, selection.cursor, U'\u2502', {});
  draw_marks(screen, {plot.left, plot.bottom(), plot.width, 1}, document, selection, timeline, look);
  draw_axis(screen, {plot.left, plot.bottom() + 1, plot.width, 1}, document, selection, timeline, look);
}

namespace {

constexpr int levels = 8;  // of a character

/// The heights at which the layers of a column end, in levels; the last is that of the reserved area.
std::vector<int> heights_of(const ChartColumn& column, std::uint64_t top, int rows) {
  const auto level = [&](double value) {
    return std::clamp(static_cast<int>(std::lround(value / static_cast<double>(top) * rows * levels)), 0,
                      rows * levels);
  };
  std::vector<int> heights;
  double sum = 0;
  for (const std::uint64_t part : column.parts) heights.push_back(level(sum += static_cast<double>(part)));
  const int before = heights.empty() ? 0 : heights.back();
  heights.push_back(std::max(before, level(static_cast<double>(column.reserved))));
  return heights;
}

/// A layer's part of a character, from its lower edge.
struct Share {
  std::size_t layer = 0;
  int from = 0, to = 0;
  int size() const { return to - from; }
};

/// Every layer in a character, from the bottom; the empty space above all layers is one more.
std::vector<Share> shares_of(const std::vector<int>& heights, int bottom) {
  std::vector<Share> shares;
  int from = bottom;
  for (std::size_t layer = 0; layer <= heights.size(); ++layer) {
    const int end = layer < heights.size() ? std::clamp(heights[layer], bottom, bottom + levels) : bottom + levels;
    if (end > from) shares.push_back({layer, from - bottom, end - bottom});
    from = std::max(from, end);
  }
  return shares;
}

struct Palette {
  const Chart& chart;
  const Look& look;

  bool is_reserved(std::size_t layer) const { return layer == chart.layers.size(); }
  bool is_empty(std::size_t layer) const { return layer > chart.layers.size(); }
  Colour colour(std::size_t layer) const {
    return is_empty(layer) ? Colour() : is_reserved(layer) ? look.reserved() : chart.layers[layer].colour;
  }
  char32_t letter(std::size_t layer) const {
    if (is_empty(layer)) return U' ';
    return is_reserved(layer) ? U'.' : static_cast<char32_t>(chart.layers[layer].letter);
  }
};

/// Two layers at most fit in a character: the largest two.
Cell cell_of(std::vector<Share> shares, const Palette& palette) {
  while (shares.size() > 2) shares.erase(std::ranges::min_element(shares, {}, &Share::size));
  const Share& lower = shares.front();
  if (palette.look.uses_letters()) {
    const Share& most = *std::ranges::max_element(shares, {}, &Share::size);
    return {palette.letter(most.layer), {.ink = palette.colour(most.layer)}};
  }
  if (shares.size() == 1) {
    if (palette.is_empty(lower.layer)) return {};
    return {palette.is_reserved(lower.layer) ? U'\u2591' : U'\u2588', {.ink = palette.colour(lower.layer)}};
  }
  const Share& upper = shares.back();
  const int level = std::clamp(lower.size() * levels / (lower.size() + upper.size()), 1, levels - 1);
  return {static_cast<char32_t>(0x2580 + level),
          {.ink = palette.colour(lower.layer),
           .ground = palette.is_reserved(upper.layer) ? Colour() : palette.colour(upper.layer)}};
}

}  // namespace

void draw_chart(Screen& screen, const Area& area, const Chart& chart, const Look& look) {
  const Palette palette{chart, look};
  const int columns = std::min(area.width, static_cast<int>(chart.columns.size()));
  for (int x = 0; x < columns; ++x) {
    const ChartColumn& column = chart.columns[static_cast<std::size_t>(x)];
    const std::vector<int> heights = heights_of(column, std::max<std::uint64_t>(chart.top, 1), area.height);
    for (int row = 0; row < area.height; ++row) {
      const Cell cell = cell_of(shares_of(heights, row * levels), palette);
      screen.put(area.left + x, area.bottom() - 1 - row, cell.glyph, cell.style);
    }
  }
}

std::string spark_line(const std::vector<std::uint64_t>& values, std::uint64_t top, int width, const Look& look) {
  std::string line;
  if (values.empty() || width <= 0 || top == 0) return line;
  const auto count = static_cast<std::size_t>(width);
  for (std::size_t x = 0; x < count; ++x) {
    const std::size_t begin = x * values.size() / count;
    const std::size_t end = std::max(begin + 1, (x + 1) * values.size() / count);
    std::uint64_t most = 0;
    for (std::size_t i = begin; i < std::min(end, values.size()); ++i) most = std::max(most, values[i]);
    const double share = static_cast<double>(most) / static_cast<double>(top);
    const int level = std::clamp(static_cast<int>(std::lround(share * levels)), most == 0 ? 0 : 1, levels);
    if (!look.unicode)
      line += level == 0 ? ' ' : static_cast<char>('0' + level);
    else
      line += level == 0 ? " " : utf8_of(static_cast<char32_t>(0x2580 + level));
  }
  return line;
}

}  // namespace memreel::viewer::terminal
