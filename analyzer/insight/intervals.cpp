#include "analyzer/insight/intervals.h"

#include <algorithm>
#include <map>

#include "analyzer/replay/steps.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/own_frame.h"
#include "formats/model/flat_map.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::uint32_t fewest_repeats = 8;
constexpr std::uint32_t most_intervals = 64;
constexpr std::uint32_t well_many_rounds = 16;
constexpr std::uint32_t loops_tried = 16;

/// An allocation site: the stack. Where no stack was recorded, only the size distinguishes sites.
struct Site {
  StackId stack = StackId::none;
  Bytes size;
  friend bool operator==(const Site&, const Site&) = default;
};
struct SiteHash {
  std::uint64_t operator()(const Site& site) const {
    return mix_bits(site.size.count * 0x9E3779B97F4A7C15U + index(site.stack));
  }
};

/// The allocations of one heap as a sequence of site numbers.
struct SiteSequence {
  std::vector<Site> sites;
  std::vector<std::uint32_t> counts;    // by site
  std::vector<std::uint32_t> site_of;   // by allocation
  std::vector<std::uint32_t> event_of;  // by allocation
};

SiteSequence site_sequence(const Trace& trace, HeapId heap) {
  SiteSequence sequence;
  FlatMap<Site, SiteHash> numbers;
  for (const std::uint32_t event : trace.allocation_events) {
    if (trace.tables[trace.events.origin[event]].heap != heap) continue;
    const StackId stack = trace.events.stack[event];
    const Site site{.stack = stack, .size = stack == StackId::none ? trace.events.size[event] : 0_B};
    std::uint32_t number = numbers.find(site);
    if (number == absent) {
      number = static_cast<std::uint32_t>(sequence.sites.size());
      numbers.put(site, number);
      sequence.sites.push_back(site);
      sequence.counts.push_back(0);
    }
    ++sequence.counts[number];
    sequence.site_of.push_back(number);
    sequence.event_of.push_back(event);
  }
  return sequence;
}

/// Whether events at these places are evenly spaced from the beginning of `total` to the end.
bool is_even(const std::vector<std::uint32_t>& places, std::size_t total) {
  std::vector<std::uint32_t> gaps;
  for (std::size_t i = 1; i < places.size(); ++i) gaps.push_back(places[i] - places[i - 1]);
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  const std::uint32_t usual = *middle;
  const std::uint32_t longest = *std::max_element(gaps.begin(), gaps.end());
  const std::size_t covered = places.back() - places.front() + usual;
  return longest <= 4 * usual && usual >= 2 && 4 * covered >= 3 * total;
}

/// Places of the allocations that begin an interval; empty if no loop is found.
std::vector<std::uint32_t> beginnings(const SiteSequence& sequence) {
  struct Loop {
    std::uint32_t intervals;
    std::vector<std::uint32_t> sites;  // in the order first seen
  };
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_count;
  for (std::uint32_t site = 0; site < sequence.sites.size(); ++site) {
    if (sequence.counts[site] >= fewest_repeats) by_count[sequence.counts[site]].push_back(site);
  }
  std::vector<Loop> loops;
  std::size_t most_sites = 0;
  for (auto& [count, sites] : by_count) {
    most_sites = std::max(most_sites, sites.size());
    loops.push_back({count, std::move(sites)});
  }
  std::erase_if(loops, [&](const Loop& loop) {
    return 4 * loop.sites.size() < most_sites || loop.sites.size() < std::min<std::size_t>(2, most_sites);
  });
  std::stable_partition(loops.begin(), loops.end(),
                        [](const Loop& loop) { return loop.intervals >= well_many_rounds; });
  if (loops.size() > loops_tried) loops.resize(loops_tried);
  for (const Loop& loop : loops) {
    std::vector<std::uint32_t> places;
    for (std::uint32_t i = 0; i < sequence.site_of.size(); ++i) {
      if (sequence.site_of[i] == loop.sites.front()) places.push_back(i);
    }
    if (is_even(places, sequence.site_of.size())) return places;
  }
  return {};
}

std::string line_of(const Trace& trace, StackId stack) { return line_label(own_frame(frames_of(trace.tables, stack))); }

Intervals by_repetition(const Trace& trace, const SiteSequence& sequence) {
  const std::vector<std::uint32_t> places = beginnings(sequence);
  if (places.size() < fewest_repeats) return {};
  Intervals intervals{.source = IntervalSource::repetition,
                      .name = line_of(trace, sequence.sites[sequence.site_of[places.front()]].stack),
                      .last_is_open = true};
  for (std::size_t i = 1; i < places.size(); ++i) intervals.ends.push_back(sequence.event_of[places[i]]);
  return intervals;
}

Intervals by_allocations(const SiteSequence& sequence) {
  const std::size_t total = sequence.event_of.size();
  const std::size_t count = std::min<std::size_t>(most_intervals, total / 4);
  if (count < fewest_repeats) return {};
  Intervals intervals{.source = IntervalSource::allocations, .name = {}, .last_is_open = true};
  for (std::size_t i = 1; i < count; ++i) intervals.ends.push_back(sequence.event_of[total * i / count]);
  return intervals;
}

}  // namespace

Intervals find_intervals(const Trace& trace, HeapId heap) {
  Steps steps = find_steps(trace, heap);
  if (steps.ends.size() >= fewest_repeats)
    return {.source = IntervalSource::marks, .name = std::move(steps.mark), .ends = std::move(steps.ends)};
  const SiteSequence sequence = site_sequence(trace, heap);
  Intervals intervals = by_repetition(trace, sequence);
  return intervals.count() != 0 ? intervals : by_allocations(sequence);
}

std::string text_of(const Intervals& intervals) {
  const std::string count = std::to_string(intervals.count());
  switch (intervals.source) {
    case IntervalSource::marks:
      return count + " steps, from the marks \"" + intervals.name + "\"";
    case IntervalSource::repetition:
      return count + " steps, found by allocations that repeat" +
             (intervals.name.empty() ? "" : " (each starts at " + intervals.name + ")");
    case IntervalSource::allocations:
      return count + " intervals of equally many allocations, as no steps are marked and none repeat";
    case IntervalSource::time:
      return count + " intervals of " + intervals.name + ", from the recorder's sums";
    default:
      return "too few steps to judge growth";
  }
}

}  // namespace memreel
