// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/activity.h"

#include <algorithm>

namespace memreel {
namespace {

bool is_memory(EventKind kind) { return kind == EventKind::alloc || kind == EventKind::free_requested; }

/// Whether Python stacks were recorded for events of this kind: then one without them belongs to no Python thread.
bool has_python_stacks(const Trace& trace, const std::vector<StackMeaning>& stacks, EventKind kind) {
  const Events& events = trace.events;
  for (std::size_t i = 0; i < events.count(); ++i)
    if (events.kind(i) == kind && stacks[index(events.stack(i))].has_python) return true;
  return false;
}

bool has_frames_of_torch(const Tables& tables) {
  for (std::uint32_t f = 1; f < tables.frames.size(); ++f)
    if (is_of_torch(frame_text(tables, FrameId{f}))) return true;
  return false;
}

class PhaseFinder {
 public:
  PhaseFinder(const Trace& trace, const std::vector<StackMeaning>& stacks) : trace_(trace), stacks_(stacks) {
    const bool has_torch = has_frames_of_torch(trace.tables);
    for (const Heap& heap : trace.tables.heaps)
      has_engine_.push_back(has_torch && heap.level == Level::framework ? 1 : 0);
    allocations_have_python_ = has_python_stacks(trace, stacks, EventKind::alloc);
    phases_.frees_have_stacks = has_python_stacks(trace, stacks, EventKind::free_requested);
    for (const Mark& mark : trace.tables.marks)
      is_optimizer_step_.push_back(trace.tables[mark.name].starts_with("Optimizer.") ? 1 : 0);
  }

  Phases find() && {
    const Events& events = trace_.events;
    phases_.of_event.assign(events.count(), Phase::other);
    events.for_each<event_field::origin | event_field::stack>([&](std::uint32_t i, const Event& event) {
      if (event.kind == EventKind::mark) see_mark(events.value(i));
      const Phase phase = is_memory(event.kind) ? evidence(event) : Phase::other;
      phases_.of_event[i] = phase;
      if (phase == Phase::other || phase == phases_.of_pass.back()) return;
      phases_.of_pass.push_back(phase);
      phases_.begin_of_pass.push_back(i);
    });
    phases_.has_backward = std::ranges::find(phases_.of_pass, Phase::backward) != phases_.of_pass.end();
    add_losses();
    return std::move(phases_);
  }

 private:
  Phase evidence(const Event& event) const {
    const StackMeaning& stack = stacks_[index(event.stack)];
    if (stack.preexisting) return Phase::other;
    if (stack.by_engine) return Phase::backward;
    if (stack.phase != Phase::other) return stack.phase;
    if (in_optimizer_ > 0) return Phase::optimizer;
    const bool others_have_python =
        event.kind == EventKind::alloc ? allocations_have_python_ : phases_.frees_have_stacks;
    const bool has_engine = has_engine_[index(trace_.tables[event.origin].heap)] != 0;
    // With names of native frames, autograd's engine would have been seen by its own.
    const bool may_be_engine = !stack.has_python && !stack.has_operator;
    return others_have_python && has_engine && may_be_engine ? Phase::backward : Phase::other;
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
    std::size_t pass = phases_.of_pass.size() - 1;
    for (std::size_t i = phases_.of_event.size(); i-- > 0;) {
      while (phases_.begin_of_pass[pass] > i) --pass;
      Phase& phase = phases_.of_event[i];
      if (phase != Phase::other)
        next = phase;
      else if (next == Phase::backward && phases_.of_pass[pass] == Phase::forward && is_memory(trace_.events.kind(i)))
        phase = Phase::forward;
    }
  }

  const Trace& trace_;
  const std::vector<StackMeaning>& stacks_;
  Phases phases_;
  std::vector<char> has_engine_;         // by HeapId: whether autograd's engine may request memory there
  std::vector<char> is_optimizer_step_;  // by MarkId
  bool allocations_have_python_ = false;
  int in_optimizer_ = 0;
};

}  // namespace

std::uint32_t Phases::pass_of(std::uint32_t event) const {
  return static_cast<std::uint32_t>(std::ranges::upper_bound(begin_of_pass, event) - begin_of_pass.begin() - 1);
}

Activity find_activity(const Trace& trace) {
  Activity activity{.rules = rules_of_frames(trace.tables), .stacks = {}, .phases = {}};
  activity.stacks = stack_meanings(trace.tables, activity.rules);
  activity.phases = PhaseFinder(trace, activity.stacks).find();
  return activity;
}

}  // namespace memreel
