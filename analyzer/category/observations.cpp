#include "analyzer/category/observations.h"

#include <algorithm>

namespace memreel {
namespace {

/// Records for allocations made outside modules that they meet the next module call.
void meet_forward(const Trace& trace, Observations& seen) {
  const EventColumns& events = trace.events;
  std::vector<AllocationId> waiting;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    if (events.kind[i] != EventKind::alloc) continue;
    const StackMeaning& stack = seen.stacks[index(events.stack[i])];
    if (stack.in_module && !stack.by_engine) {
      for (const AllocationId id : waiting) {
        Observation& observation = seen.allocations[index(id)];
        observation.meets_forward = !observation.is_freed() || observation.end > i;
      }
      waiting.clear();
    } else if (stack.phase == Phase::other && stack.has_python && !stack.by_engine) {
      waiting.push_back(events.allocation[i]);
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
    const EventColumns& events = trace_.events;
    ordinal_.resize(seen_.allocations.size());
    for (std::size_t i = 0; i < events.count(); ++i) {
      if (events.kind[i] != EventKind::alloc && events.kind[i] != EventKind::free_requested) continue;
      const AllocationId id = events.allocation[i];
      if (id == AllocationId::none) continue;
      const std::size_t heap = index(trace_.tables[events.origin[i]].heap);
      if (events.kind[i] == EventKind::free_requested) {
        freed_[heap].push_back(id);
        continue;
      }
      close(freed_[heap], Graph::released);
      if (of(id).phase == Phase::forward && !of(id).older) ordinal_[index(id)] = made_[heap]++;
    }
    std::vector<std::vector<AllocationId>> live(trace_.tables.heaps.size());
    for (std::uint32_t id = 0; id < seen_.allocations.size(); ++id)
      if (const Observation& observation = seen_.allocations[id]; observation.begin != never && !observation.is_freed())
        live[index(trace_.tables[events.origin[observation.begin]].heap)].push_back(AllocationId{id});
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

Observations observe(const Trace& trace) {
  Observations seen;
  seen.stacks = stack_meanings(trace.tables);
  seen.phases = find_phases(trace, seen.stacks);
  const EventColumns& events = trace.events;
  const bool shows_torch =
      seen.phases.has_backward || std::ranges::any_of(seen.stacks, [](const StackMeaning& s) { return s.in_module; });
  const std::vector<Lifetime> lives = lifetimes(trace);
  seen.allocations.reserve(lives.size());
  for (const Lifetime& life : lives) {
    Observation of{.begin = life.begin, .end = life.requested};
    if (life.begin == never) {
      seen.allocations.push_back(of);
      continue;
    }
    const Origin& origin = trace.tables[events.origin[life.begin]];
    of.size = events.size[life.begin];
    of.stack = events.stack[life.begin];
    of.phase = seen.phases.of_event[life.begin];
    of.made_in = seen.phases.pass_of[life.begin];
    of.freed_in = life.requested == never ? seen.last_pass() : seen.phases.pass_of[life.requested];
    of.torch = shows_torch && trace.tables[origin.heap].level == Level::framework;
    of.older = seen.stacks[index(of.stack)].preexisting;
    of.private_pool = origin.pool != PoolId::default_pool;
    if (of.is_freed()) {
      const Phase freed = seen.phases.of_event[of.end];
      if (freed == Phase::forward || freed == Phase::optimizer) seen.last_work = std::max(seen.last_work, of.end);
      const StackMeaning& free = seen.stacks[index(events.stack[life.requested])];
      of.freed_in_module = free.in_module;
      of.freed_by_zero_grad = free.purpose == Purpose::zero_grad;
      // Without stacks, a free only shows in which pass it lies.
      of.freed_by_backward = seen.phases.frees_have_stacks
                                 ? seen.phases.of_event[life.requested] == Phase::backward
                                 : seen.phases.of_pass[of.freed_in] == Phase::backward && of.made_in != of.freed_in;
    }
    if (of.phase == Phase::forward && of.begin < seen.first_forward) seen.first_forward = of.begin;
    if (of.phase == Phase::forward) seen.last_forward = of.begin;
    if (of.phase != Phase::other) seen.last_work = std::max(seen.last_work, of.begin);
    seen.allocations.push_back(of);
  }
  meet_forward(trace, seen);
  if (shows_torch) Releases(trace, seen).find();
  return seen;
}

}  // namespace memreel
