// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/leaks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "analyzer/analysis/history/lifetimes.h"
#include "formats/model/frame_kind.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr std::uint32_t not_here = Held::alive;  // allocations of other heaps, and freed ones

/// Addresses at which pools inside `heap` have segments.
std::unordered_set<std::uint64_t> reserves_of_pools(const Trace& trace, HeapId heap) {
  std::unordered_set<std::uint64_t> addresses;
  const auto is_inside = [&](HeapId other) { return heap != HeapId::none && trace.tables[other].parent == heap; };
  const std::vector<Heap>& heaps = trace.tables.heaps;
  if (std::none_of(heaps.begin(), heaps.end(), [&](const Heap& h) { return heap != HeapId::none && h.parent == heap; }))
    return addresses;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const EventKind kind = trace.events.kind(i);
    if (kind != EventKind::segment_alloc && kind != EventKind::segment_map) continue;
    if (is_inside(trace.tables[trace.events.origin(i)].heap)) addresses.insert(trace.events.address(i).value);
  }
  return addresses;
}

struct Tally {
  std::uint64_t allocations = 0, frees = 0;
  std::uint32_t last_free = Held::alive;
  bool crosses = false;  // some outlived their round and were freed
  std::uint32_t population = not_here;
};

struct Crossing {
  std::uint32_t site = 0;
  Held held;
};

void sort_by_id(std::vector<Held>& held) {
  std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.id < b.id; });
}

/// What the events say of one heap, before grouping by stack.
struct Census {
  const HeapInRounds* of = nullptr;
  std::unordered_set<std::uint64_t> reserves;
  std::uint32_t round = 0;          // of the latest event
  std::vector<Tally> tallies;       // by site
  std::vector<Crossing> crossings;  // allocations that outlived their round and were freed
  std::vector<Population> found{};

  std::uint32_t round_at(std::uint32_t event) {
    const std::vector<std::uint32_t>& ends = of->rounds.ends;
    while (round < ends.size() && ends[round] <= event) ++round;
    return round;
  }
};

/// The censuses of several heaps in one walk over the events.
class CensusTaker {
 public:
  CensusTaker(const Trace& trace, std::span<const HeapInRounds> heaps)
      : trace_(trace),
        site_(same_code(trace.tables)),
        note_(notes_of(trace)),
        row_(trace.tables.origins.size(), not_here),
        births_(trace.events.allocation_count(), not_here) {
    for (const HeapInRounds& heap : heaps)
      censuses_.push_back({.of = &heap,
                           .reserves = reserves_of_pools(trace, heap.heap),
                           .tallies = std::vector<Tally>(trace.tables.stacks.size() + trace.tables.origins.size()),
                           .crossings = {}});
    for (std::size_t origin = 0; origin < row_.size(); ++origin)
      for (std::uint32_t row = 0; row < heaps.size(); ++row)
        if (trace.tables.origins[origin].heap == heaps[row].heap) row_[origin] = row;
  }

  std::vector<std::vector<Population>> take() && {
    walk();
    for (Census& census : censuses_) begin_populations(trace_.tables, census);
    for (std::uint32_t a = 0; a < births_.size(); ++a) {
      if (births_[a] == not_here) continue;
      const std::uint32_t event = trace_.events.begin_of(AllocationId(a));
      Census& census = censuses_[row_[index(trace_.events.origin(event))]];
      population_of(census, site_of(event))
          .held.push_back({.id = AllocationId{a},
                           .birth = births_[a],
                           .size = trace_.events.size(event),
                           .earlier = is_earlier(census, event)});
    }
    std::vector<std::vector<Population>> all;
    for (Census& census : censuses_) {
      for (Population& population : census.found) sort_by_id(population.held);
      all.push_back(std::move(census.found));
    }
    return all;
  }

 private:
  /// By origin: where there is no stack, what PyTorch's profiler notes tells places apart; a program's own notes may
  /// number its steps. The number of the first origin with the same note, after those of stacks; 0: there is none.
  static std::vector<std::uint32_t> notes_of(const Trace& trace) {
    const Tables& tables = trace.tables;
    std::vector<std::uint32_t> notes(tables.origins.size());
    if (!trace.folded.empty() || trace.header.source != profiled_source) return notes;
    std::map<StringId, std::uint32_t> first{{StringId::none, 0}};
    for (std::uint32_t o = 0; o < notes.size(); ++o)
      notes[o] = first.try_emplace(tables.origins[o].metadata, static_cast<std::uint32_t>(tables.stacks.size()) + o)
                     .first->second;
    return notes;
  }

  std::uint32_t site_of(StackId stack, OriginId origin) const {
    const StackId site = site_[index(stack)];
    return site == StackId::none ? note_[index(origin)] : index(site);
  }
  std::uint32_t site_of(std::uint32_t event) const {
    return site_of(trace_.events.stack(event), trace_.events.origin(event));
  }

  static Population& population_of(Census& census, std::uint32_t site) {
    return census.found[census.tallies[site].population];
  }

  /// The intervals of the sums go further back than the events.
  bool is_earlier(const Census& census, std::uint32_t event) const {
    return trace_.losses.folded_events != 0 && census.of->rounds.source != RoundSource::time &&
           trace_.events.time(event) <= trace_.losses.folded_until;
  }

  void walk() {
    constexpr std::uint8_t fields = event_field::origin | event_field::stack | event_field::allocation;
    trace_.events.for_each<fields>([&](std::uint32_t i, const Event& event) {
      if (event.allocation == AllocationId::none) return;
      if (event.kind == EventKind::alloc)
        see_alloc(i, event);
      else if (event.kind == EventKind::free_requested && births_[index(event.allocation)] != not_here)
        see_free(i, event);
    });
  }

  void see_alloc(std::uint32_t i, const Event& event) {
    const std::uint32_t row = row_[index(event.origin)];
    if (row == not_here) return;
    Census& census = censuses_[row];
    if (!census.reserves.empty() && census.reserves.contains(trace_.events.address(i).value)) return;
    births_[index(event.allocation)] = census.round_at(i);
    ++census.tallies[site_of(event.stack, event.origin)].allocations;
  }

  void see_free(std::uint32_t i, const Event& event) {
    const AllocationId id = event.allocation;
    const std::uint32_t made = trace_.events.begin_of(id);
    Census& census = censuses_[row_[index(trace_.events.origin_of(id))]];
    if (census.of->end.frees(i, made)) return;
    const std::uint32_t birth = std::exchange(births_[index(id)], not_here);
    const std::uint32_t round = census.round_at(i);
    const std::uint32_t site = site_of(made);
    Tally& tally = census.tallies[site];
    ++tally.frees;
    tally.last_free = round;
    if (round == birth) return;
    tally.crosses = true;
    census.crossings.push_back({site, {.id = id, .birth = birth, .death = round, .size = trace_.events.size_of(id)}});
  }

  static void begin_populations(const Tables& tables, Census& census) {
    const std::size_t stacks = tables.stacks.size();
    for (std::uint32_t site = 0; site < census.tallies.size(); ++site) {
      Tally& tally = census.tallies[site];
      if (tally.allocations == tally.frees && !tally.crosses) continue;
      tally.population = static_cast<std::uint32_t>(census.found.size());
      census.found.push_back({.stack = site < stacks ? StackId{site} : StackId::none,
                              .note = site < stacks ? StringId::none : tables.origins[site - stacks].metadata,
                              .allocations = tally.allocations,
                              .frees = tally.frees,
                              .last_free = tally.last_free,
                              .held = {}});
    }
    for (const Crossing& crossing : census.crossings)
      population_of(census, crossing.site).held.push_back(crossing.held);
  }

  const Trace& trace_;
  std::vector<StackId> site_;          // by stack: the representative of all stacks of the same code
  std::vector<std::uint32_t> note_;    // by origin, the site of what has no stack
  std::vector<std::uint32_t> row_;     // of a census, by origin
  std::vector<std::uint32_t> births_;  // by allocation: its round, while it is live
  std::vector<Census> censuses_;
};

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

std::uint32_t end_of_life(const Trace& trace, HeapId heap) {
  const Events& events = trace.events;
  const auto last = static_cast<std::uint32_t>(events.count());
  if (events.find(EventKind::pool_destroyed, 0) == last) return last;
  std::uint32_t end = last;
  bool is_destroyed = false;
  for (std::uint32_t i = 0; i < last; ++i) {
    const EventKind kind = events.kind(i);
    if (kind != EventKind::alloc && kind != EventKind::pool_created && kind != EventKind::pool_destroyed) continue;
    if (trace.tables[events.origin(i)].heap != heap) continue;
    if (kind == EventKind::pool_destroyed && end == last) end = i;
    if (kind == EventKind::alloc && !is_destroyed) end = last;
    if (kind != EventKind::alloc) is_destroyed = kind == EventKind::pool_destroyed;
  }
  return end;
}

WindUp wind_up(const Trace& trace, HeapId heap, const Rounds& rounds) {
  const auto is_ours = [&](std::uint32_t event) { return trace.tables[trace.events.origin(event)].heap == heap; };
  const auto allocations = trace.events.begins();
  std::uint32_t all = 0;
  for (std::size_t i = allocations.size(); i-- > 0 && all == 0;)
    if (is_ours(allocations[i])) all = allocations[i] + 1;
  WindUp end{.last_round = all, .all = all, .life = end_of_life(trace, heap)};
  if (rounds.last_is_open || rounds.ends.empty()) return end;
  const auto behind = std::ranges::lower_bound(allocations, rounds.ends.back());
  const bool are_most = std::ranges::count_if(allocations.begin(), behind, is_ours) >=
                        std::ranges::count_if(behind, allocations.end(), is_ours);
  if (are_most) end.last_round = rounds.ends.back();
  return end;
}

HeapInRounds in_rounds(const Trace& trace, HeapId heap, Rounds rounds) {
  const WindUp end = wind_up(trace, heap, rounds);
  return {.heap = heap, .rounds = std::move(rounds), .end = end};
}

std::vector<std::vector<Population>> populations(const Trace& trace, std::span<const HeapInRounds> heaps) {
  return CensusTaker(trace, heaps).take();
}

Population merged(std::vector<Population> parts) {
  Population whole = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Population& part = parts[i];
    whole.allocations += part.allocations;
    whole.frees += part.frees;
    if (part.last_free != Held::alive)
      whole.last_free = whole.last_free == Held::alive ? part.last_free : std::max(whole.last_free, part.last_free);
    whole.held.insert(whole.held.end(), part.held.begin(), part.held.end());
    whole.earlier_frees += part.earlier_frees;
    whole.earlier_life = std::max(whole.earlier_life, part.earlier_life);
  }
  sort_by_id(whole.held);
  return whole;
}

Rounds folded_rounds(const Trace& trace) {
  Rounds intervals;
  const FoldedHistory& folded = trace.folded;
  if (folded.empty() || trace.events.count() == 0 || !trace.read.later.empty()) return intervals;
  const auto times = trace.events.times();
  const std::uint32_t last = interval_of(folded, trace.events.latest());
  if (last >= 2 * max_folded_intervals) return intervals;
  intervals.source = RoundSource::time;
  intervals.name = text_of_seconds(std::chrono::duration<double>(folded.interval).count());
  intervals.last_is_open = true;
  std::uint32_t event = 0;
  for (std::uint32_t i = 0; i < last; ++i) {
    while (event < times.size() && interval_of(folded, times[event]) <= i) ++event;
    intervals.ends.push_back(event);
  }
  return intervals;
}

std::vector<Population> folded_populations(const Trace& trace, HeapId heap, const Rounds& intervals) {
  const HeapInRounds of = in_rounds(trace, heap, intervals);
  std::vector<Population> found = std::move(populations(trace, std::span(&of, 1)).front());
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
  for (const std::uint32_t event : trace.events.begins()) {
    if (trace.events.time(event) > folded.until || trace.tables[trace.events.origin(event)].heap != heap) continue;
    const auto past = pasts.find(site[index(trace.events.stack(event))]);
    if (past == pasts.end()) continue;
    const auto made = past->second.made.find(interval_of(folded, trace.events.time(event)));
    if (made == past->second.made.end()) continue;
    Bytes& bytes = past->second.made_bytes[made->first];
    bytes -= std::min(bytes, trace.events.size(event));
    if (--made->second == 0) past->second.made.erase(made);
  }
  for (Population& population : found) add_past(pasts[population.stack], population);
  return found;
}

void learn_earlier_lives(std::vector<Population>& found, const std::vector<Population>& sums,
                         double intervals_per_round, std::uint32_t rounds) {
  std::map<StackId, const Population*> by_stack;
  for (const Population& population : sums) by_stack[population.stack] = &population;
  for (Population& population : found) {
    const auto past = by_stack.find(population.stack);
    if (past == by_stack.end()) continue;
    population.earlier_frees = past->second->frees - std::min(population.frees, past->second->frees);
    std::uint32_t longest = 0;  // in intervals: what outlived one may have lived for a moment
    for (const Held& held : past->second->held)
      if (!held.survives()) longest = std::max(longest, held.death - held.birth);
    if (longest < 2 || intervals_per_round <= 0) continue;
    population.earlier_life =
        static_cast<std::uint32_t>(std::min((longest - 1) / intervals_per_round, static_cast<double>(rounds)));
  }
}

namespace {

/// The live memory of a heap over its rounds.
struct LiveMemory {
  std::vector<double> after;           // bytes at the end of each round
  std::map<Bytes, Bytes> freed_older;  // by size: of what is older than the recording, how much was freed
};

LiveMemory live_memory(const Trace& trace, HeapId heap, const Rounds& rounds) {
  const Events& events = trace.events;
  const std::vector<char> older = older_allocations(trace);
  const WindUp end = wind_up(trace, heap, rounds);
  LiveMemory memory;
  double live = 0;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    while (memory.after.size() < rounds.ends.size() && rounds.ends[memory.after.size()] <= i)
      memory.after.push_back(live);
    const EventKind kind = events.kind(i);
    if ((kind != EventKind::alloc && kind != EventKind::free_requested) || events.allocation(i) == AllocationId::none)
      continue;
    const std::uint32_t made = trace.events.begin_of(events.allocation(i));
    if (trace.tables[events.origin(made)].heap != heap) continue;
    const Bytes size = events.size(made);
    live += (kind == EventKind::alloc ? 1.0 : -1.0) * static_cast<double>(size.count);
    if (kind == EventKind::free_requested && !end.frees(i, made) && older[index(events.allocation(i))] != 0)
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
      const std::uint32_t event = trace.events.begin_of(id);
      const auto round = std::ranges::upper_bound(rounds.ends, event) - rounds.ends.begin();
      made[static_cast<std::size_t>(round)] += static_cast<double>(trace.events.size(event).count);
    }
  }
  return made;
}

/// Whether at least half of it replaces older memory of the same size.
bool replaces_older(const Trace& trace, const LeakFinding& finding, const std::map<Bytes, Bytes>& freed_older) {
  std::set<Bytes> sizes;
  for (const AllocationId id : finding.allocations) sizes.insert(trace.events.size(trace.events.begin_of(id)));
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
