#include "analyzer/category/phases.h"

#include <algorithm>
#include <string_view>

namespace memreel {
namespace {

bool is_memory(EventKind kind) { return kind == EventKind::alloc || kind == EventKind::free_requested; }

/// Whether Python stacks were recorded for events of this kind: then one without them belongs to no Python thread.
bool has_python_stacks(const Trace& trace, const std::vector<StackMeaning>& stacks, EventKind kind) {
  const EventColumns& events = trace.events;
  for (std::size_t i = 0; i < events.count(); ++i)
    if (events.kind[i] == kind && stacks[index(events.stack[i])].has_python) return true;
  return false;
}

class PhaseFinder {
 public:
  PhaseFinder(const Trace& trace, const std::vector<StackMeaning>& stacks) : trace_(trace), stacks_(stacks) {
    for (const Heap& heap : trace.tables.heaps) is_framework_.push_back(heap.level == Level::framework ? 1 : 0);
    allocations_have_python_ = has_python_stacks(trace, stacks, EventKind::alloc);
    phases_.frees_have_stacks = has_python_stacks(trace, stacks, EventKind::free_requested);
    for (const Mark& mark : trace.tables.marks)
      is_optimizer_step_.push_back(trace.tables[mark.name].starts_with("Optimizer.") ? 1 : 0);
  }

  Phases find() && {
    const EventColumns& events = trace_.events;
    phases_.of_event.assign(events.count(), Phase::other);
    phases_.pass_of.assign(events.count(), 0);
    phases_.of_pass.assign(1, Phase::other);
    for (std::size_t i = 0; i < events.count(); ++i) {
      if (events.kind[i] == EventKind::mark) see_mark(events.address_or_value[i]);
      const Phase phase = is_memory(events.kind[i]) ? evidence(i) : Phase::other;
      if (phase != Phase::other && phase != phases_.of_pass.back()) phases_.of_pass.push_back(phase);
      phases_.of_event[i] = phase;
      phases_.pass_of[i] = static_cast<std::uint32_t>(phases_.of_pass.size() - 1);
    }
    phases_.has_backward = std::ranges::find(phases_.of_pass, Phase::backward) != phases_.of_pass.end();
    add_losses();
    return std::move(phases_);
  }

 private:
  Phase evidence(std::size_t i) const {
    const EventColumns& events = trace_.events;
    const StackMeaning& stack = stacks_[index(events.stack[i])];
    if (stack.preexisting) return Phase::other;
    if (stack.by_engine) return Phase::backward;
    if (stack.phase != Phase::other) return stack.phase;
    if (in_optimizer_ > 0) return Phase::optimizer;
    const bool others_have_python =
        events.kind[i] == EventKind::alloc ? allocations_have_python_ : phases_.frees_have_stacks;
    const bool framework = is_framework_[index(trace_.tables[events.origin[i]].heap)] != 0;
    // With names of native frames, autograd's engine would have been seen by its own.
    const bool may_be_engine = !stack.has_python && !stack.has_operator;
    return others_have_python && framework && may_be_engine ? Phase::backward : Phase::other;
  }

  void see_mark(std::uint64_t value) {
    if (value >= is_optimizer_step_.size() || is_optimizer_step_[value] == 0) return;
    const MarkPhase phase = trace_.tables.marks[value].phase;
    if (phase == MarkPhase::begin) ++in_optimizer_;
    if (phase == MarkPhase::end && in_optimizer_ > 0) --in_optimizer_;
  }

  /// From the end, since later events decide: the loss lies between a forward and a backward pass.
  void add_losses() {
    Phase next = Phase::other;
    for (std::size_t i = phases_.of_event.size(); i-- > 0;) {
      Phase& phase = phases_.of_event[i];
      if (phase != Phase::other)
        next = phase;
      else if (next == Phase::backward && phases_.of_pass[phases_.pass_of[i]] == Phase::forward &&
               is_memory(trace_.events.kind[i]))
        phase = Phase::forward;
    }
  }

  const Trace& trace_;
  const std::vector<StackMeaning>& stacks_;
  Phases phases_;
  std::vector<char> is_framework_;       // by HeapId
  std::vector<char> is_optimizer_step_;  // by MarkId
  bool allocations_have_python_ = false;
  int in_optimizer_ = 0;
};

}  // namespace

Phases find_phases(const Trace& trace, const std::vector<StackMeaning>& stacks) {
  return PhaseFinder(trace, stacks).find();
}

}  // namespace memreel
