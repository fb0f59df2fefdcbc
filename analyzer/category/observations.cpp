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
    of.private_pool = origin.pool != PoolId::default_pool;
    if (of.is_freed()) {
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
    seen.allocations.push_back(of);
  }
  meet_forward(trace, seen);
  return seen;
}

}  // namespace memreel
