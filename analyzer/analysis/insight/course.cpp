// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/course.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "analyzer/analysis/category/observations.h"

namespace memreel {

std::vector<FrameId> same_places(const Tables& tables) {
  std::map<std::tuple<StringId, StringId, std::uint32_t, ModuleId, std::uint64_t>, FrameId> first;
  std::vector<FrameId> same;
  for (std::uint32_t f = 0; f < tables.frames.size(); ++f) {
    const Frame& frame = tables.frames[f];
    const auto found =
        first.try_emplace({frame.function, frame.file, frame.line, frame.module, frame.module_offset}, FrameId{f});
    same.push_back(found.first->second);
  }
  return same;
}

namespace {

/// Calls of modules, by stack.
class ModuleCalls {
 public:
  /// `rules`: by frame.
  ModuleCalls(const Tables& tables, std::span<const FrameRule* const> rules, std::span<const FrameId> same)
      : root_(tables.stacks.size(), StackId::none), site_of_(tables.stacks.size(), no_site) {
    std::vector<Place> places;
    for (std::uint32_t f = 0; f < tables.frames.size(); ++f)
      places.push_back(place_of(tables.frames[f].kind, rules[f]));
    std::map<std::tuple<FrameId, StringId, StringId>, std::uint32_t> sites;
    std::vector<State> states(tables.stacks.size());
    for (std::uint32_t s = 1; s < states.size(); ++s) {
      const Stack& stack = tables.stacks[s];
      State& state = states[s] = states[index(stack.caller)];  // callers come first
      root_[s] = root_[index(stack.caller)];
      switch (places[index(stack.frame)]) {
        case Place::module_call:
          state.enters_module = true;
          break;
        case Place::program:
          if (!std::exchange(state.enters_module, false)) {
            state.caller = stack.frame;
          } else if (root_[s] == StackId::none) {
            root_[s] = StackId{s};
            const Frame& frame = tables[stack.frame];
            const FrameId caller = same[index(state.caller)];
            const auto site = sites.try_emplace({caller, frame.function, frame.file}, size()).first->second;
            if (site == size()) {
              callers_.push_back(caller);
              is_program_.push_back(frame.owner == CodeOwner::user ? 1 : 0);
            }
            site_of_[s] = site;
          } else {
            is_program_[site_of_[index(root_[s])]] = 1;  // it calls modules itself
          }
          break;
        default:
          break;
      }
    }
  }

  static constexpr std::uint32_t no_site = 0xFFFF'FFFF;

  /// The call site of the outermost module that `stack` is in. None for a module of a library that calls no other, e.g.
  /// a Linear: then the program's own code is the outermost layer.
  std::uint32_t site(StackId stack) const {
    const StackId root = root_[index(stack)];
    if (root == StackId::none) return no_site;
    const std::uint32_t site = site_of_[index(root)];
    return is_program_[site] != 0 ? site : no_site;
  }
  /// By site, the program's line that calls it.
  const std::vector<FrameId>& callers() const { return callers_; }

 private:
  enum class Place : std::uint8_t { other, module_call, program };
  /// Of a stack so far.
  struct State {
    bool enters_module = false;      // the next Python frame is a module's own
    FrameId caller = FrameId::none;  // the innermost Python frame
  };

  /// The interpreter's frames and wrappers between a caller and a module are neither.
  static Place place_of(FrameKind kind, const FrameRule* rule) {
    if (rule != nullptr && rule->purpose == Purpose::compute) return Place::module_call;
    if (rule != nullptr && rule->purpose == Purpose::wrapper) return Place::other;
    return kind == FrameKind::python ? Place::program : Place::other;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(callers_.size()); }

  std::vector<StackId> root_;           // by stack: its outermost part whose frame is a module's own
  std::vector<std::uint32_t> site_of_;  // by such a part
  std::vector<FrameId> callers_;        // by site
  std::vector<char> is_program_;        // by site
};

/// By stack, where the program enters an optimizer, or asks for a backward pass.
class PassCalls {
 public:
  PassCalls(const Tables& tables, std::span<const FrameRule* const> rules, std::span<const FrameId> same)
      : site_of_(tables.stacks.size(), Pass::no_site), step_(tables.stacks.size(), FrameId::none) {
    std::map<std::pair<std::uint32_t, FrameId>, std::uint32_t> paths;
    std::vector<std::uint32_t> path(tables.stacks.size(), 0);  // of its frames of Python; 0: it has none
    for (std::uint32_t s = 1; s < path.size(); ++s) {
      const Stack& stack = tables.stacks[s];
      const std::size_t caller = index(stack.caller);  // callers come first
      path[s] = path[caller];
      site_of_[s] = site_of_[caller];
      step_[s] = step_[caller];
      const Frame& frame = tables[stack.frame];
      if (frame.kind != FrameKind::python) continue;
      const auto next = static_cast<std::uint32_t>(paths.size() + 1);
      path[s] = paths.try_emplace({path[caller], same[index(stack.frame)]}, next).first->second;
      const FrameRule* const rule = rules[index(stack.frame)];
      if (rule == nullptr) continue;
      const bool is_optimizer = rule->purpose == Purpose::optimizer;
      if (site_of_[s] == Pass::no_site && (is_optimizer || rule->phase == Phase::backward)) site_of_[s] = path[caller];
      if (step_[s] == FrameId::none && is_optimizer && tables[frame.function].ends_with("step"))
        step_[s] = same[index(stack.frame)];
    }
  }

  std::uint32_t site(StackId stack) const { return site_of_[index(stack)]; }
  /// The line of the optimizer's step() that `stack` goes through.
  FrameId step(StackId stack) const { return step_[index(stack)]; }

 private:
  std::vector<std::uint32_t> site_of_;
  std::vector<FrameId> step_;
};

class CourseFinder {
 public:
  CourseFinder(const Trace& trace, const Activity& activity, const Captured& captured)
      : trace_(trace),
        activity_(activity),
        captured_(captured),
        same_(same_places(trace.tables)),
        modules_(trace.tables, activity.rules, same_),
        calls_(trace.tables, activity.rules, same_) {}

  Course find() && {
    const Events& events = trace_.events;
    // What is freed after the last allocation ends the program, and no pass.
    const auto begins = events.begins();
    const std::uint32_t end = begins.empty() ? 0 : begins.back() + 1;
    events.for_each<event_field::origin | event_field::stack>([&](std::uint32_t i, const Event& event) {
      const bool allocates = event.kind == EventKind::alloc;
      if (i >= end || (!allocates && event.kind != EventKind::free_requested)) return;
      const StackMeaning& stack = activity_.stacks[index(event.stack)];
      if (stack.preexisting) return;
      Device& device = devices_[trace_.tables[trace_.tables[event.origin].heap].device];
      const Phase phase = activity_.phases.of_event[i];
      if (stack.purpose != Purpose::optimizer && calls_.step(event.stack) != FrameId::none)
        device.evaluated = calls_.step(event.stack);
      if (phase == Phase::optimizer) {
        if (stack.purpose != Purpose::zero_grad) add(device, Phase::optimizer, i, event.stack);
      } else if (phase == Phase::backward) {
        add(device, Phase::backward, i, event.stack);
      } else if (stack.in_module) {
        course_.has_modules = true;
        if (allocates && !captured_(i)) see_call(device, i, modules_.site(event.stack));
      } else if (stack.has_python) {
        site_ = ModuleCalls::no_site;
        if (device.now == Phase::backward) device.now = Phase::other;
      }
    });
    for (auto& [device, seen] : devices_) course_.devices[device] = std::move(seen.passes);
    course_.callers = modules_.callers();
    return std::move(course_);
  }

 private:
  struct Device {
    Passes passes;
    Phase now = Phase::other;
    FrameId evaluated = FrameId::none;  // since its last pass of an optimizer
  };

  void add(Device& device, Phase phase, std::uint32_t event, StackId stack) {
    std::vector<Pass>& passes = phase == Phase::optimizer ? device.passes.optimizer : device.passes.backward;
    if (device.now != phase) {
      passes.push_back({.begin = event});
      if (phase == Phase::optimizer) passes.back().evaluated = std::exchange(device.evaluated, FrameId::none);
    }
    Pass& pass = passes.back();
    pass.end = event + 1;
    if (pass.site == Pass::no_site) pass.site = calls_.site(stack);
    device.now = phase;
    site_ = ModuleCalls::no_site;
  }

  void see_call(Device& device, std::uint32_t event, std::uint32_t site) {
    device.now = Phase::forward;
    // A module that the program calls itself, such as a loss, ends the model's call even if it is no model.
    if (site != ModuleCalls::no_site && site != site_) course_.calls.emplace_back(event, site);
    site_ = site;
  }

  const Trace& trace_;
  const Activity& activity_;
  const Captured& captured_;
  std::vector<FrameId> same_;
  ModuleCalls modules_;
  PassCalls calls_;
  Course course_;
  std::map<std::int32_t, Device> devices_;
  std::uint32_t site_ = ModuleCalls::no_site;  // of the call that runs
};

/// Where a step() evaluates the model several times, the first time is from the first of the lines that do.
class Evaluations {
 public:
  Evaluations(const Tables& tables, std::span<const Pass> passes) : tables_(tables) {
    for (const Pass& pass : passes) {
      if (pass.evaluated == FrameId::none) continue;
      std::uint32_t& first = first_.try_emplace(function_of(pass), line_of(pass)).first->second;
      first = std::min(first, line_of(pass));
    }
  }

  /// Whether step() goes on in this pass.
  bool continues(const Pass& pass) const {
    return pass.evaluated != FrameId::none && line_of(pass) != first_.at(function_of(pass));
  }

 private:
  std::pair<StringId, StringId> function_of(const Pass& pass) const {
    const Frame& frame = tables_[pass.evaluated];
    return {frame.function, frame.file};
  }
  std::uint32_t line_of(const Pass& pass) const { return tables_[pass.evaluated].line; }

  const Tables& tables_;
  std::map<std::pair<StringId, StringId>, std::uint32_t> first_;
};

/// Which sites usually follow each other: passes that do so once, or now and then, are of different loops.
class Turns {
 public:
  explicit Turns(std::span<const Pass> passes) {
    for (std::size_t i = 0; i < passes.size(); ++i) {
      ++count_[passes[i].site];
      if (i > 0) ++turns_[{passes[i - 1].site, passes[i].site}];
    }
  }

  bool take(std::uint32_t site, std::uint32_t next) const {
    if (site == Pass::no_site || next == Pass::no_site) return false;
    const auto turns = turns_.find({site, next});
    return turns != turns_.end() && turns->second > 1 &&
           2 * turns->second >= std::min(count_.at(site), count_.at(next));
  }

 private:
  std::map<std::uint32_t, std::size_t> count_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> turns_;
};

}  // namespace

Captured::Captured(const Trace& trace, std::span<const HeapPools> pools)
    : trace_(trace), is_of_graphs_(trace.tables.pools.size()) {
  for (const HeapPools& heap : pools)
    for (const PrivatePool& pool : heap.pools) is_of_graphs_[index(pool.pool)] = pool.has_captures ? 1 : 0;
}

Course find_course(const Trace& trace, const Activity& activity, const Captured& captured) {
  return CourseFinder(trace, activity, captured).find();
}

std::vector<std::uint32_t> ends_of_iterations(const Tables& tables, std::span<const Pass> passes) {
  const Evaluations evaluations(tables, passes);
  std::vector<Pass> steps;
  for (const Pass& pass : passes)
    if (!steps.empty() && evaluations.continues(pass))
      steps.back().end = pass.end;
    else
      steps.push_back(pass);
  const Turns turns(steps);
  std::vector<std::uint32_t> ends;
  std::set<std::uint32_t> sites;  // of this iteration
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i > 0 && turns.take(steps[i - 1].site, steps[i].site) && !sites.contains(steps[i].site)) {
      ends.back() = steps[i].end;
    } else {
      ends.push_back(steps[i].end);
      sites.clear();
    }
    sites.insert(steps[i].site);
  }
  return ends;
}

}  // namespace memreel
