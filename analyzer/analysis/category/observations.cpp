// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/observations.h"

#include <map>
#include <numeric>

namespace memreel {
namespace {

/// Records for allocations made outside modules that they meet the next module call.
void meet_forward(const Trace& trace, Observations& seen) {
  const Events& events = trace.events;
  std::vector<AllocationId> waiting;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    if (events.kind(i) != EventKind::alloc) continue;
    const StackMeaning& stack = seen.activity.stacks[index(events.stack(i))];
    if (stack.in_module && !stack.by_engine) {
      for (const AllocationId id : waiting) {
        Observation& observation = seen.allocations[index(id)];
        observation.meets_forward = !observation.is_freed() || observation.end > i;
      }
      waiting.clear();
    } else if (stack.phase == Phase::other && stack.has_python && !stack.by_engine) {
      waiting.push_back(events.allocation(i));
    }
  }
}

/// At least so many allocations are a graph: a function without a graph frees fewer at once when it returns.
constexpr std::size_t least_graph = 16;
/// The share of a pass's allocations that a graph keeps. Of 206 public snapshots, passes that keep one have 0.25 to
/// 0.56; passes that keep copies of weights under autocast or a key-value cache have at most 0.11.
constexpr double least_share = 0.2;

/// Finds what is released at once: the frees of a heap with no allocation between them, and what is live at the end.
class Releases {
 public:
  Releases(const Trace& trace, Observations& seen)
      : trace_(trace), seen_(seen), made_(trace.tables.heaps.size()), freed_(trace.tables.heaps.size()) {}

  void find() {
    const Events& events = trace_.events;
    ordinal_.resize(seen_.allocations.size());
    for (std::size_t i = 0; i < events.count(); ++i) {
      if (events.kind(i) != EventKind::alloc && events.kind(i) != EventKind::free_requested) continue;
      const AllocationId id = events.allocation(i);
      if (id == AllocationId::none) continue;
      const std::size_t heap = index(trace_.tables[events.origin(i)].heap);
      if (events.kind(i) == EventKind::free_requested) {
        freed_[heap].push_back(id);
        continue;
      }
      close(freed_[heap], Graph::released);
      if (of(id).phase == Phase::forward && !of(id).older) ordinal_[index(id)] = made_[heap]++;
    }
    std::vector<std::vector<AllocationId>> live(trace_.tables.heaps.size());
    for (std::uint32_t id = 0; id < seen_.allocations.size(); ++id)
      if (const Observation& observation = seen_.allocations[id]; observation.begin != never && !observation.is_freed())
        live[index(trace_.tables[events.origin(observation.begin)].heap)].push_back(AllocationId{id});
    for (auto& release : freed_) close(release, Graph::released);
    for (auto& release : live) close(release, Graph::at_end);
  }

 private:
  Observation& of(AllocationId id) { return seen_.allocations[index(id)]; }

  void close(std::vector<AllocationId>& release, Graph graph) {
    if (release.size() >= least_graph) {
      std::vector<AllocationId> forward, older;
      for (const AllocationId id : release) {
        if (of(id).older)
          older.push_back(id);
        else if (of(id).phase == Phase::forward && !of(id).freed_by_backward)
          forward.push_back(id);
      }
      if (is_graph(forward))
        for (const AllocationId id : forward) of(id).graph = graph;
      if (graph == Graph::released && older.size() >= least_graph) seen_.older_releases.push_back(std::move(older));
    }
    release.clear();
  }

  /// Judges by the middle of the allocations: what other passes left is at the ends.
  bool is_graph(const std::vector<AllocationId>& ids) const {
    if (ids.size() < least_graph) return false;
    std::vector<std::uint32_t> at;
    at.reserve(ids.size());
    for (const AllocationId id : ids) at.push_back(ordinal_[index(id)]);
    std::ranges::sort(at);
    const std::size_t first = at.size() / 10, last = at.size() - 1 - at.size() / 10;
    return static_cast<double>(last - first) >= least_share * (at[last] - at[first]);
  }

  const Trace& trace_;
  Observations& seen_;
  std::vector<std::uint32_t> made_;               // by HeapId: allocations in forward passes so far
  std::vector<std::vector<AllocationId>> freed_;  // by HeapId: since its last allocation
  std::vector<std::uint32_t> ordinal_;            // by AllocationId: among those of its heap's forward passes
};

}  // namespace

Observations observe(const Trace& trace, std::span<const Lifetime> lives, const Activity& activity) {
  const auto& [rules, stacks, phases] = activity;
  Observations seen{.activity = activity, .allocations = {}, .older_releases = {}};
  const Events& events = trace.events;
  const bool shows_torch =
      phases.has_backward || std::ranges::any_of(stacks, [](const StackMeaning& s) { return s.in_module; });
  seen.allocations.reserve(lives.size());
  for (const Lifetime& life : lives) {
    Observation of{.begin = life.begin, .end = life.requested};
    if (life.begin == never) {
      seen.allocations.push_back(of);
      continue;
    }
    const Origin& origin = trace.tables[events.origin(life.begin)];
    of.size = events.size(life.begin);
    of.stack = events.stack(life.begin);
    of.phase = phases.of_event[life.begin];
    of.made_in = phases.pass_of(life.begin);
    of.freed_in = life.requested == never ? seen.last_pass() : phases.pass_of(life.requested);
    of.torch = shows_torch && trace.tables[origin.heap].level == Level::framework;
    of.older = stacks[index(of.stack)].preexisting;
    of.private_pool = origin.pool != PoolId::default_pool;
    if (of.is_freed()) {
      const Phase freed = phases.of_event[of.end];
      if (freed == Phase::forward || freed == Phase::optimizer) seen.last_work = std::max(seen.last_work, of.end);
      const StackMeaning& free = stacks[index(events.stack(life.requested))];
      of.freed_in_module = free.in_module;
      of.freed_by_zero_grad = free.purpose == Purpose::zero_grad;
      // Without stacks, a free only shows in which pass it lies.
      of.freed_by_backward = phases.frees_have_stacks
                                 ? phases.of_event[life.requested] == Phase::backward
                                 : phases.of_pass[of.freed_in] == Phase::backward && of.made_in != of.freed_in;
    }
    if (of.phase == Phase::forward && of.begin < seen.first_forward) seen.first_forward = of.begin;
    if (of.phase == Phase::forward) seen.last_forward = of.begin;
    if (of.phase != Phase::other) seen.last_work = std::max(seen.last_work, of.begin);
    seen.allocations.push_back(of);
  }
  meet_forward(trace, seen);
  if (shows_torch) {
    Releases(trace, seen).find();
    take_temporaries_from_graphs(trace, seen);
  }
  return seen;
}

namespace {

constexpr std::uint32_t fewest_sites = 3;

/// How often a line ran in one pass, according to the stacks below it.
struct Runs {
  std::uint32_t times = 0;  // 0: nothing was seen
  std::uint32_t sites = 0;

  bool is_loop() const { return sites >= fewest_sites && times > 1 && times <= LayerCalls::most; }
};

class Passes {
 public:
  Passes(const Trace& trace, const Activity& activity) : trace_(trace), activity_(activity) {}

  /// Calls `visit(begin, end)` with the allocations of each forward pass, while their sites and lines are available.
  void for_each(auto&& visit) {
    const auto count = static_cast<std::uint32_t>(trace_.events.allocation_count());
    for (std::uint32_t begin = 0, end = 0; begin < count; begin = end) {
      const std::uint32_t pass = pass_of(begin);
      while (end < count && pass_of(end) == pass) ++end;
      if (activity_.phases.of_pass[pass] != Phase::forward) continue;
      count_sites(begin, end);
      count_lines();
      visit(begin, end);
    }
  }

  StackId stack_of(std::uint32_t allocation) const {
    return trace_.events.stack(trace_.events.begin_of(AllocationId(allocation)));
  }
  /// The next line outwards, from a stack or from a line.
  StackId line_of(StackId stack) const { return activity_.stacks[index(stack)].layer; }
  StackId line_around(StackId line) const { return line_of(trace_.tables[line].caller); }
  const std::unordered_map<std::uint32_t, Runs>& lines() const { return lines_; }
  Runs runs_of(StackId line) const {
    const auto found = lines_.find(index(line));
    return found == lines_.end() ? Runs{} : found->second;
  }
  std::uint32_t made_by(StackId site) const { return sites_.at(index(site)); }

 private:
  std::uint32_t pass_of(std::uint32_t allocation) const {
    return activity_.phases.pass_of(trace_.events.begin_of(AllocationId(allocation)));
  }

  void count_sites(std::uint32_t begin, std::uint32_t end) {
    sites_.clear();
    for (std::uint32_t a = begin; a < end; ++a)
      if (line_of(stack_of(a)) != StackId::none) ++sites_[index(stack_of(a))];
  }

  void count_lines() {
    lines_.clear();
    for (const auto& [site, made] : sites_)
      for (StackId line = line_of(StackId{site}); line != StackId::none; line = line_around(line)) {
        Runs& runs = lines_[index(line)];
        runs.times = std::gcd(runs.times, made);
        ++runs.sites;
      }
  }

  const Trace& trace_;
  const Activity& activity_;
  std::unordered_map<std::uint32_t, std::uint32_t> sites_;  // number of allocations of each stack
  std::unordered_map<std::uint32_t, Runs> lines_;
};

/// By line: how often it runs in most of the passes in which it runs; only for loops.
std::unordered_map<std::uint32_t, std::uint32_t> usual_runs(Passes& passes) {
  std::unordered_map<std::uint32_t, std::map<std::uint32_t, std::uint32_t>> seen;  // by line: passes, by number of runs
  passes.for_each([&](std::uint32_t, std::uint32_t) {
    for (const auto& [line, runs] : passes.lines()) ++seen[line][runs.is_loop() ? runs.times : 1];
  });
  std::unordered_map<std::uint32_t, std::uint32_t> usual;
  for (const auto& [line, by_times] : seen) {
    std::uint32_t all = 0;
    for (const auto& [times, count] : by_times) all += count;
    for (const auto& [times, count] : by_times)
      if (times > 1 && count > all / 2) usual.emplace(line, times);
  }
  return usual;
}

}  // namespace

LayerCalls find_layer_calls(const Trace& trace, const Activity& activity) {
  const std::vector<StackMeaning>& stacks = activity.stacks;
  if (std::ranges::any_of(stacks, [](const StackMeaning& stack) { return stack.call != StackId::none; })) return {};
  Passes passes(trace, activity);
  const auto usual = usual_runs(passes);
  if (usual.empty()) return {};
  LayerCalls calls{.line = std::vector<StackId>(stacks.size(), StackId::none),
                   .number = std::vector<std::uint16_t>(trace.events.allocation_count(), LayerCalls::none)};
  // Callers come first, so the part around a line already knows the outermost one.
  for (std::uint32_t s = 1; s < stacks.size(); ++s) {
    const StackId line = stacks[s].layer;
    if (line == StackId::none) continue;
    const StackId outer = calls.line[index(trace.tables[line].caller)];
    calls.line[s] = outer != StackId::none ? outer : usual.contains(index(line)) ? line : StackId::none;
  }
  passes.for_each([&](std::uint32_t begin, std::uint32_t end) {
    std::unordered_map<std::uint32_t, std::uint32_t> made;  // by stack, so far
    for (std::uint32_t a = begin; a < end; ++a) {
      const StackId stack = passes.stack_of(a);
      const StackId line = calls.line[index(stack)];
      if (line == StackId::none) continue;
      const std::uint32_t times = usual.at(index(line));
      if (passes.runs_of(line).times != times) continue;
      calls.number[a] = static_cast<std::uint16_t>(made[index(stack)]++ / (passes.made_by(stack) / times));
    }
  });
  return calls;
}

}  // namespace memreel
