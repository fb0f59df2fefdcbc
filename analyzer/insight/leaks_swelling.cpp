#include "analyzer/insight/leaks_swelling.h"

#include <algorithm>
#include <vector>

#include "analyzer/insight/line_fit.h"

namespace memreel {
namespace {

constexpr std::uint32_t enough_swelling_rounds = 16;
constexpr double least_swelling_span = 0.5;  // of all intervals
constexpr double least_growth = 2;           // from a quarter of the way to the end
constexpr double deepest_fall = 0.9;         // share of the highest before
constexpr double steady_swelling_r2 = 0.8;

struct HeldAt {
  Bytes bytes;
  std::int64_t count = 0;
};

/// The bytes held at the end of each interval.
std::vector<HeldAt> held_after_rounds(const Population& population, std::uint32_t intervals) {
  std::vector<HeldAt> held(intervals), gone(intervals);
  for (const Held& h : population.held) {
    if (h.birth >= intervals) continue;
    held[h.birth].bytes += h.size;
    ++held[h.birth].count;
    if (h.death >= intervals) continue;
    gone[h.death].bytes += h.size;
    ++gone[h.death].count;
  }
  HeldAt now;
  for (std::uint32_t r = 0; r < intervals; ++r) {
    now.bytes += held[r].bytes;
    now.bytes -= gone[r].bytes;
    now.count += held[r].count - gone[r].count;
    held[r] = now;
  }
  return held;
}

}  // namespace

std::optional<Swelling> swelling_of(const Population& population, const Intervals& intervals) {
  const std::uint32_t count = intervals.count();
  if (population.stack == StackId::none || population.frees == 0 || !population.has_survivors() ||
      count < enough_swelling_rounds)
    return std::nullopt;
  const std::vector<HeldAt> held = held_after_rounds(population, count);
  const auto begin = static_cast<std::uint32_t>(
      std::ranges::find_if(held, [](const HeldAt& h) { return h.count != 0; }) - held.begin());
  if (begin == count || count - begin < least_swelling_span * count) return std::nullopt;

  Swelling swelling{.growth = {.first = begin}, .at_first = held[begin].bytes, .at_last = held.back().bytes};
  LineFit line;
  Bytes most;
  for (std::uint32_t r = begin; r < count; ++r) {
    const Bytes bytes = held[r].bytes;
    if (static_cast<double>(bytes.count) < deepest_fall * static_cast<double>(most.count)) return std::nullopt;
    if (bytes > most) {
      ++swelling.growth.intervals;
      swelling.growth.last = r;
      most = bytes;
    }
    line.add(r, static_cast<double>(bytes.count));
  }
  const std::uint32_t span = count - begin;
  const std::uint32_t usual_gap = span / std::max(1U, swelling.growth.intervals) + 1;
  const bool has_stopped = count - 1 - swelling.growth.last > 3 * usual_gap;
  const HeldAt early = held[begin + span / 4];
  const bool is_larger =
      static_cast<double>(held.back().bytes.count) >= least_growth * static_cast<double>(early.bytes.count);
  // More live ones make a queue.
  if (swelling.growth.intervals < enough_swelling_rounds || has_stopped || !is_larger ||
      held.back().count > early.count)
    return std::nullopt;
  swelling.growth.slope = line.slope();
  swelling.growth.r2 = line.r2();
  for (const Held& h : population.held)
    if (!h.survives()) swelling.growth.longest_life = std::max(swelling.growth.longest_life, h.death - h.birth);
  if (swelling.growth.r2 < steady_swelling_r2) return std::nullopt;
  return swelling;
}

bool others_grow(const Trace& trace, HeapId heap, const Intervals& intervals, StackId site) {
  struct Series {
    std::uint32_t interval = 0;
    Bytes asked;  // requested in this interval
    LineFit line;
  };
  const EventColumns& events = trace.events;
  std::vector<Series> all_series(trace.tables.stacks.size());
  const auto end_interval = [](Series& series) {
    if (series.asked != 0_B) series.line.add(series.interval, static_cast<double>(series.asked.count));
    series.asked = {};
  };
  std::uint32_t interval = 0;
  for (const std::uint32_t event : trace.allocation_events) {
    while (interval < intervals.ends.size() && intervals.ends[interval] <= event) ++interval;
    const StackId stack = events.stack[event];
    if (stack == site || trace.tables[events.origin[event]].heap != heap) continue;
    Series& series = all_series[index(stack)];
    if (series.interval != interval) end_interval(series);
    series.interval = interval;
    series.asked += events.size[event];
  }
  for (Series& series : all_series) end_interval(series);
  return std::any_of(all_series.begin(), all_series.end(), [&](const Series& series) {
    const LineFit& line = series.line;
    return line.count() >= least_swelling_span * intervals.count() && line.r2() >= steady_swelling_r2 &&
           line.slope() * intervals.count() >= line.mean() / 2;
  });
}

}  // namespace memreel
