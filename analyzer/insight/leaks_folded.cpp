#include "analyzer/insight/leaks_folded.h"

#include <algorithm>
#include <map>
#include <string>

#include "formats/model/quantity.h"
#include "formats/model/same_code.h"

namespace memreel {
namespace {

constexpr std::uint64_t most_of_an_interval = 64;

std::uint32_t interval_of(const FoldedHistory& folded, Nanoseconds time) {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, (time - folded.begin) / folded.interval));
}

/// What one site did in each interval before the first kept event, counting only what was freed by then.
struct Past {
  std::map<std::uint32_t, std::uint64_t> made, freed;  // by interval
  std::map<std::uint32_t, Bytes> made_bytes;
};

/// Frees the oldest first.
void add_past(const Past& past, Population& population) {
  auto made = past.made.begin();
  std::uint64_t left = made != past.made.end() ? made->second : 0;
  for (const auto& [death, count] : past.freed) {
    population.last_free = population.last_free == Held::alive ? death : std::max(population.last_free, death);
    for (std::uint64_t frees = count; frees > 0 && made != past.made.end() && made->first <= death;) {
      const std::uint64_t taken = std::min(frees, left);
      const std::uint32_t birth = made->first;
      population.allocations += taken;
      population.frees += taken;
      const auto bytes = past.made_bytes.find(birth);
      const Bytes each{bytes == past.made_bytes.end() ? 0
                                                      : bytes->second.count / std::max<std::uint64_t>(1, made->second)};
      if (birth != death)
        for (std::uint64_t i = 0; i < std::min(taken, most_of_an_interval); ++i)
          population.held.push_back({.birth = birth, .death = death, .size = each});
      frees -= taken;
      left -= taken;
      if (left == 0 && ++made != past.made.end()) left = made->second;
    }
  }
  std::ranges::stable_sort(population.held, {}, &Held::birth);
}

}  // namespace

Intervals folded_intervals(const Trace& trace) {
  Intervals intervals;
  const FoldedHistory& folded = trace.folded;
  if (folded.empty() || trace.events.count() == 0) return intervals;
  const auto& times = trace.events.time;
  const std::uint32_t last = interval_of(folded, *std::max_element(times.begin(), times.end()));
  if (last >= 2 * max_folded_intervals) return intervals;
  intervals.source = IntervalSource::time;
  intervals.name = text_of_seconds(std::chrono::duration<double>(folded.interval).count());
  intervals.last_is_open = true;
  std::uint32_t event = 0;
  for (std::uint32_t i = 0; i < last; ++i) {
    while (event < times.size() && interval_of(folded, times[event]) <= i) ++event;
    intervals.ends.push_back(event);
  }
  return intervals;
}

std::vector<Population> folded_populations(const Trace& trace, HeapId heap, const Intervals& intervals) {
  std::vector<Population> found = populations(trace, heap, intervals);
  const FoldedHistory& folded = trace.folded;
  const std::vector<StackId> site = same_code(trace.tables);
  std::map<StackId, Past> pasts;
  for (const Population& population : found) pasts[population.stack];
  for (const FoldedRow& row : folded.rows) {
    if (row.heap != heap) continue;
    const auto past = pasts.find(site[index(row.stack)]);
    if (past == pasts.end()) continue;
    if (row.allocations != 0) {
      past->second.made[row.interval] += row.allocations;
      past->second.made_bytes[row.interval] += row.allocated;
    }
    if (row.frees != 0) past->second.freed[row.interval] += row.frees;
  }
  // The trace's own events are counted there.
  for (const std::uint32_t event : trace.allocation_events) {
    if (trace.events.time[event] > folded.until || trace.tables[trace.events.origin[event]].heap != heap) continue;
    const auto past = pasts.find(site[index(trace.events.stack[event])]);
    if (past == pasts.end()) continue;
    const auto made = past->second.made.find(interval_of(folded, trace.events.time[event]));
    if (made == past->second.made.end()) continue;
    Bytes& bytes = past->second.made_bytes[made->first];
    bytes -= std::min(bytes, trace.events.size[event]);
    if (--made->second == 0) past->second.made.erase(made);
  }
  for (Population& population : found) add_past(pasts[population.stack], population);
  return found;
}

}  // namespace memreel
