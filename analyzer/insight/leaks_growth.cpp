// SPDX-License-Identifier: Apache-2.0
#include "analyzer/insight/leaks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analyzer/history/lifetimes.h"

namespace memreel {
namespace {

/// The live memory of a heap over its rounds.
struct LiveMemory {
  std::vector<double> after;           // bytes at the end of each round
  std::map<Bytes, Bytes> freed_older;  // by size: of what is older than the recording, how much was freed
};

LiveMemory live_memory(const Trace& trace, HeapId heap, const Rounds& rounds) {
  const EventColumns& events = trace.events;
  const std::vector<char> older = older_allocations(trace);
  const WindUp end = wind_up(trace, heap, rounds);
  LiveMemory memory;
  double live = 0;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    while (memory.after.size() < rounds.ends.size() && rounds.ends[memory.after.size()] <= i)
      memory.after.push_back(live);
    const EventKind kind = events.kind[i];
    if ((kind != EventKind::alloc && kind != EventKind::free_requested) || events.allocation[i] == AllocationId::none)
      continue;
    const std::uint32_t made = trace.allocation_events[index(events.allocation[i])];
    if (trace.tables[events.origin[made]].heap != heap) continue;
    const Bytes size = events.size[made];
    live += (kind == EventKind::alloc ? 1.0 : -1.0) * static_cast<double>(size.count);
    if (kind == EventKind::free_requested && !end.frees(i, made) && older[index(events.allocation[i])] != 0)
      memory.freed_older[size] += size;
  }
  if (memory.after.size() < rounds.ends.size()) memory.after.push_back(live);
  return memory;
}

// Of what is accused, a part may be innocent (leaks_judge.cpp).
constexpr double certain_share = 0.8;

/// Whether live memory grew by what was `made` in each round, from any round of the first half to the last that ended,
/// within the fluctuation from round to round. (After that the program may have ended, and freed what it needed.)
bool grew_by(const LiveMemory& memory, const std::vector<double>& made) {
  const std::vector<double>& live = memory.after;
  if (live.empty()) return true;
  const std::size_t last = live.size() - 1;
  const double slope = last == 0 ? 0 : (live[last] - live[0]) / static_cast<double>(last);
  double fluctuation = 0;
  for (std::size_t r = last / 2 + 1; r <= last; ++r)
    fluctuation = std::max(fluctuation, std::abs(live[r] - live[r - 1] - slope));
  double sum = 0;
  bool grew = last == 0;
  for (std::size_t r = last; r-- > 0;) {
    sum += made[r + 1];
    grew = grew || (2 * r <= last && live[last] - live[r] + fluctuation >= certain_share * sum);
  }
  return grew;
}

/// Bytes of the accused that were made in each round, or by which they grew.
std::vector<double> made_by_round(const Trace& trace, const Rounds& rounds, std::span<const LeakFinding> findings,
                                  std::span<const char> is_accused) {
  std::vector<double> made(rounds.count() + 1);
  for (std::size_t f = 0; f < findings.size(); ++f) {
    if (is_accused[f] == 0) continue;
    if (findings[f].swelling) {
      for (std::uint32_t r = findings[f].growth.first; r < rounds.count(); ++r) made[r] += findings[f].growth.slope;
      continue;
    }
    for (const AllocationId id : findings[f].allocations) {
      const std::uint32_t event = trace.allocation_events[index(id)];
      const auto round = std::ranges::upper_bound(rounds.ends, event) - rounds.ends.begin();
      made[static_cast<std::size_t>(round)] += static_cast<double>(trace.events.size[event].count);
    }
  }
  return made;
}

/// Whether at least half of it replaces older memory of the same size.
bool replaces_older(const Trace& trace, const LeakFinding& finding, const std::map<Bytes, Bytes>& freed_older) {
  std::set<Bytes> sizes;
  for (const AllocationId id : finding.allocations) sizes.insert(trace.events.size[trace.allocation_events[index(id)]]);
  Bytes replaced;
  for (const Bytes size : sizes) {
    const auto freed = freed_older.find(size);
    if (freed != freed_older.end()) replaced += freed->second;
  }
  return 2 * replaced.count >= finding.bytes.count;
}

}  // namespace

std::vector<std::size_t> unfounded(const Trace& trace, HeapId heap, const Rounds& rounds,
                                   std::span<const LeakFinding> findings) {
  std::vector<char> is_accused;
  for (const LeakFinding& finding : findings) is_accused.push_back(accuses(finding.verdict) ? 1 : 0);
  std::vector<std::size_t> acquitted;
  if (std::ranges::count(is_accused, 1) == 0) return acquitted;
  const auto acquit = [&](std::size_t f) {
    is_accused[f] = 0;
    acquitted.push_back(f);
  };
  const LiveMemory live = live_memory(trace, heap, rounds);
  for (std::size_t f = 0; f < findings.size(); ++f)
    if (is_accused[f] != 0 && !findings[f].swelling && replaces_older(trace, findings[f], live.freed_older)) acquit(f);
  for (const LeakVerdict weakest : {LeakVerdict::suspected, LeakVerdict::leak}) {
    if (grew_by(live, made_by_round(trace, rounds, findings, is_accused))) break;
    for (std::size_t f = 0; f < findings.size(); ++f)
      if (is_accused[f] != 0 && findings[f].verdict == weakest) acquit(f);
  }
  return acquitted;
}

}  // namespace memreel
