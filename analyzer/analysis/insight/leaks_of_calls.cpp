// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyzer/analysis/insight/leaks.h"

namespace memreel {
namespace {

/// The longest life of what was freed, in rounds.
std::uint32_t longest_life(const Population& population) {
  std::uint32_t longest = 0;
  for (const Held& held : population.held)
    if (!held.survives()) longest = std::max(longest, held.death - held.birth);
  return longest;
}

/// What is older than `longest`, and stays.
std::vector<Held> old_ones(const Population& population, std::uint32_t count, std::uint32_t longest,
                           const std::function<bool(AllocationId)>& is_freed) {
  std::vector<Held> old;
  for (const Held& held : population.held)
    if (held.survives() && held.birth + longest < count && !is_freed(held.id)) old.push_back(held);
  return old;
}

/// Takes what was made in rounds from `first` on out of `all`, and counts rounds from there.
std::vector<Held> take_later(std::vector<Held>& all, std::uint32_t first) {
  const auto later = std::ranges::find_if(all, [&](const Held& held) { return held.birth >= first; });
  std::vector<Held> taken(later, all.end());
  all.erase(later, all.end());
  for (Held& held : taken) held.birth -= first;
  return taken;
}

}  // namespace

std::vector<KeptByCalls> kept_by_later_calls(const Trace& trace, HeapId heap, const Rounds& rounds,
                                             const std::function<bool(AllocationId)>& is_freed) {
  std::vector<KeptByCalls> all;
  if (rounds.calls.ends.empty()) return all;
  const HeapInRounds of = in_rounds(trace, heap,
                                    {.source = RoundSource::modules,
                                     .name = rounds.calls.line,
                                     .ends = rounds.calls.ends,
                                     .last_is_open = rounds.calls.last_is_open,
                                     .unfinished = !rounds.calls.last_is_open});
  Rounds later = of.rounds;
  later.ends.erase(later.ends.begin(), std::ranges::lower_bound(later.ends, rounds.ends.back()) + 1);
  if (!later.suffice()) return all;
  const std::uint32_t count = of.rounds.count(), first = count - later.count();
  std::vector<Population> found = std::move(populations(trace, std::span(&of, 1)).front());
  for (Population& population : found) {
    if (population.stack == StackId::none) continue;
    const std::uint32_t longest = longest_life(population);
    std::vector<Held> earlier = old_ones(population, count, longest, is_freed);
    std::vector<Held> old = take_later(earlier, first);
    for (Judged& judged :
         judge({.stack = population.stack, .allocations = old.size(), .held = std::move(old)}, later)) {
      if (!accuses(judged.verdict)) continue;
      judged.verdict = LeakVerdict::suspected;  // the evaluation may yet free it
      judged.growth.longest_life = longest;
      all.push_back({.population = std::move(population),
                     .calls = later.count(),
                     .judged = std::move(judged),
                     .earlier = std::move(earlier)});
      break;
    }
  }
  return all;
}

}  // namespace memreel
