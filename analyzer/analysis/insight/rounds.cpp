// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/rounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "analyzer/analysis/category/frame_rules.h"
#include "analyzer/analysis/category/observations.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/private_pools.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/replay/steps.h"
#include "formats/model/frame_kind.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::string_view optimizer_mark = "Optimizer.step";

/// By FrameId, the first frame of the same place in the code.
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

/// Indices of the events that allocate what is not older than the recording.
std::vector<std::uint32_t> own_allocations(const Trace& trace) {
  const std::vector<char> older = older_allocations(trace);
  std::vector<std::uint32_t> own;
  for (std::size_t a = 0; a < older.size(); ++a)
    if (older[a] == 0) own.push_back(trace.events.begin_of(AllocationId(a)));
  return own;
}

/// Marks may cover more than the events: a ring forgets those, and keeps the marks. Ends of rounds without allocations
/// are dropped from both ends.
void drop_empty(std::vector<std::uint32_t>& ends, std::span<const std::uint32_t> allocations) {
  if (allocations.empty()) {
    ends.clear();
    return;
  }
  ends.erase(ends.begin(), std::ranges::lower_bound(ends, allocations.front()));
  const auto last = std::ranges::upper_bound(ends, allocations.back());
  if (last != ends.end()) ends.erase(last + 1, ends.end());
}

/// What is allocated in pools that CUDA graphs were captured into. A graph keeps what its capture requested, so a loop
/// of captures builds something: it is no loop of steps.
class Captured {
 public:
  Captured(const Trace& trace, std::span<const HeapPools> pools)
      : trace_(trace), is_of_graphs_(trace.tables.pools.size()) {
    for (const HeapPools& heap : pools)
      for (const PrivatePool& pool : heap.pools) is_of_graphs_[index(pool.pool)] = pool.has_captures ? 1 : 0;
  }

  bool operator()(std::uint32_t event) const {
    return is_of_graphs_[index(trace_.tables[trace_.events.origin(event)].pool)] != 0;
  }

 private:
  const Trace& trace_;
  std::vector<char> is_of_graphs_;  // by PoolId
};

/// Whether the recording ends with a failure: no round was completed after its last failed request.
bool ends_in_failure(const Trace& trace, const std::vector<std::uint32_t>& ends) {
  const auto kinds = trace.events.kinds();
  for (std::size_t i = kinds.size(); i-- > (ends.empty() ? 0 : ends.back());)
    if (kinds[i] == EventKind::alloc_failed) return true;
  return false;
}

/// Calls of modules, by stack.
class ModuleCalls {
 public:
  /// `rules`: by frame.
  ModuleCalls(const Tables& tables, std::span<const FrameRule* const> rules)
      : root_(tables.stacks.size(), StackId::none), site_of_(tables.stacks.size(), no_site) {
    std::vector<Place> places;
    for (std::uint32_t f = 0; f < tables.frames.size(); ++f)
      places.push_back(place_of(tables.frames[f].kind, rules[f]));
    const std::vector<FrameId> same = same_places(tables);
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
  /// The program's line that calls it.
  FrameId caller(std::uint32_t site) const { return callers_[site]; }

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

/// What the program does, in the order of events: its passes and calls.
struct Course {
  struct Pass {
    std::uint32_t begin = 0, end = 0;  // events; `end` is behind the last
  };
  std::vector<Pass> optimizer, backward;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> calls;  // of modules: the first event, the call site
  bool has_modules = false;
};

class CourseFinder {
 public:
  CourseFinder(const Trace& trace, const std::vector<StackMeaning>& stacks, const ModuleCalls& modules,
               const Captured& captured)
      : trace_(trace), stacks_(stacks), modules_(modules), captured_(captured), phases_(find_phases(trace, stacks)) {}

  Course find() && {
    const Events& events = trace_.events;
    // What is freed after the last allocation ends the program, and no pass.
    const auto begins = events.begins();
    const std::uint32_t end = begins.empty() ? 0 : begins.back() + 1;
    events.for_each<event_field::stack>([&](std::uint32_t i, const Event& event) {
      const bool allocates = event.kind == EventKind::alloc;
      if (i >= end || (!allocates && event.kind != EventKind::free_requested)) return;
      const StackMeaning& stack = stacks_[index(event.stack)];
      if (stack.preexisting) return;
      const Phase phase = phases_.of_event[i];
      if (phase == Phase::optimizer) {
        if (stack.purpose != Purpose::zero_grad) add(course_.optimizer, Phase::optimizer, i);
      } else if (phase == Phase::backward) {
        add(course_.backward, Phase::backward, i);
      } else if (stack.in_module) {
        course_.has_modules = true;
        if (allocates && !captured_(i)) see_call(i, modules_.site(event.stack));
      } else if (stack.has_python) {
        site_ = ModuleCalls::no_site;
        if (now_ == Phase::backward) now_ = Phase::other;
      }
    });
    return std::move(course_);
  }

 private:
  void add(std::vector<Course::Pass>& passes, Phase phase, std::uint32_t event) {
    if (now_ != phase) passes.push_back({.begin = event});
    passes.back().end = event + 1;
    now_ = phase;
    site_ = ModuleCalls::no_site;
  }

  void see_call(std::uint32_t event, std::uint32_t site) {
    now_ = Phase::forward;
    if (site == ModuleCalls::no_site) return;
    if (site != site_) course_.calls.emplace_back(event, site);
    site_ = site;
  }

  const Trace& trace_;
  const std::vector<StackMeaning>& stacks_;
  const ModuleCalls& modules_;
  const Captured& captured_;
  Phases phases_;
  Course course_;
  Phase now_ = Phase::other;
  std::uint32_t site_ = ModuleCalls::no_site;  // of the call that runs
};

/// Whether `ends` go on until the end: after the last of them there are no more of `inner` than between others.
bool go_on(const std::vector<std::uint32_t>& ends, const std::vector<std::uint32_t>& inner) {
  std::size_t most = 1, before = 0;
  for (const std::uint32_t end : ends) {
    const auto until = static_cast<std::size_t>(std::ranges::lower_bound(inner, end) - inner.begin());
    most = std::max(most, until - before);
    before = until;
  }
  return !ends.empty() && inner.size() - before <= most;
}

Rounds rounds_of_calls(const Trace& trace, const Course& course, const ModuleCalls& modules) {
  Rounds rounds{.source = RoundSource::modules, .last_is_open = true};
  std::set<std::uint32_t> called;  // in this round
  for (const auto& [event, site] : course.calls) {
    if (called.insert(site).second) continue;
    rounds.ends.push_back(event);
    called = {site};
  }
  std::map<std::uint32_t, std::size_t> count;  // by site: what recurs most is the loop, not what comes before it
  for (const auto& [event, site] : course.calls) ++count[site];
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const FrameId caller = modules.caller(std::ranges::max_element(count, less)->first);
  if (caller != FrameId::none) rounds.name = line_label(frame_text(trace.tables, caller));
  return rounds;
}

Rounds rounds_of_course(const Trace& trace, const Course& course, const ModuleCalls& modules) {
  const auto ends_of = [](const std::vector<Course::Pass>& passes) {
    std::vector<std::uint32_t> ends;
    for (const Course::Pass& pass : passes) ends.push_back(pass.end);
    return ends;
  };
  std::vector<std::uint32_t> calls;
  for (const auto& [event, site] : course.calls) calls.push_back(event);
  const std::vector<std::uint32_t> backward = ends_of(course.backward);
  std::vector<std::uint32_t> optimizer = ends_of(course.optimizer);
  if (Steps marks = find_steps(trace, HeapId::none); marks.mark.starts_with(optimizer_mark)) optimizer = marks.ends;
  Rounds rounds;
  if (go_on(optimizer, backward))
    rounds = {.source = RoundSource::optimizer, .ends = optimizer};
  else if (go_on(backward, calls))
    rounds = {.source = RoundSource::backward, .ends = backward};
  else if (!calls.empty())
    return rounds_of_calls(trace, course, modules);
  else
    return rounds;
  rounds.unfinished = !calls.empty() && calls.back() >= rounds.ends.back();
  return rounds;
}

// Repetition.

constexpr std::uint32_t fewest_even = 8;        // recurrences of a size
constexpr std::uint32_t well_many_rounds = 16;  // few sizes recur so often by chance
constexpr std::size_t deepest = 256;            // frames of a stack
// A loop that frees less of what it allocates builds something, e.g. loads weights; before a failure it may be the
// layers of a step that would have freed the rest.
constexpr double least_freed = 0.125;
constexpr double least_freed_before_failure = 0.5;

/// Where each symbol of a sequence is reached from another: the beginnings of its runs.
struct Runs {
  std::vector<std::vector<std::uint32_t>> begins;  // by symbol, places in the sequence
  std::vector<std::uint32_t> lengths;              // by symbol, of all its runs together

  explicit Runs(std::span<const std::uint32_t> sequence) {
    std::uint32_t last = 0xFFFF'FFFF;
    for (std::uint32_t i = 0; i < sequence.size(); ++i) {
      const std::uint32_t symbol = sequence[i];
      if (symbol >= begins.size()) {
        begins.resize(symbol + 1);
        lengths.resize(symbol + 1);
      }
      ++lengths[symbol];
      if (std::exchange(last, symbol) != symbol) begins[symbol].push_back(i);
    }
  }
};

std::uint32_t usual_gap(const std::vector<std::uint32_t>& places) {
  std::vector<std::uint32_t> gaps;
  for (std::size_t i = 1; i < places.size(); ++i) gaps.push_back(places[i] - places[i - 1]);
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return *middle;
}

/// Whether places are spread over most of a sequence.
bool cover(const std::vector<std::uint32_t>& places, std::size_t total) {
  return places.size() > 1 && 4 * (places.back() - places.front() + std::size_t{usual_gap(places)}) >= 3 * total;
}

bool are_even(const std::vector<std::uint32_t>& places, std::size_t total) {
  if (!cover(places, total)) return false;
  const std::uint32_t usual = usual_gap(places);
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i] - places[i - 1] > 4 * usual) return false;
  return usual >= 2;
}

/// Sizes alone: those of one loop recur equally often and evenly. Of the loops with a fair number of sizes, the
/// outermost recurs least.
std::vector<std::uint32_t> begins_by_size(const Trace& trace, std::span<const std::uint32_t> allocations) {
  std::unordered_map<std::uint64_t, std::uint32_t> symbols;
  std::vector<std::vector<std::uint32_t>> places;
  for (std::uint32_t i = 0; i < allocations.size(); ++i) {
    const auto symbol =
        symbols.try_emplace(trace.events.size(allocations[i]).count, static_cast<std::uint32_t>(places.size())).first;
    if (symbol->second == places.size()) places.emplace_back();
    places[symbol->second].push_back(i);
  }
  std::map<std::size_t, std::vector<std::uint32_t>> loops;  // by the number of recurrences
  std::size_t most_sizes = 0;
  for (std::uint32_t s = 0; s < places.size(); ++s)
    if (places[s].size() >= fewest_even) loops[places[s].size()].push_back(s);
  for (const auto& [count, sizes] : loops) most_sizes = std::max(most_sizes, sizes.size());
  for (const bool many : {true, false})
    for (const auto& [count, sizes] : loops)
      if ((count >= well_many_rounds) == many && 4 * sizes.size() >= most_sizes &&
          sizes.size() >= std::min<std::size_t>(2, most_sizes) && are_even(places[sizes.front()], allocations.size()))
        return places[sizes.front()];
  return {};
}

/// The frames of stacks, outermost first, without those that are not the program's: the interpreter's, where there is
/// Python, and what goes on inside a module.
class Paths {
 public:
  Paths(const Tables& tables, const std::vector<StackMeaning>& stacks)
      : tables_(tables), stacks_(stacks), same_(same_places(tables)), paths_(tables.stacks.size()) {}

  /// None if it has no frame at that depth.
  FrameId frame(StackId stack, std::size_t depth) {
    const std::vector<FrameId>& path = of(stack);
    return depth < path.size() ? path[depth] : FrameId::none;
  }

 private:
  const std::vector<FrameId>& of(StackId stack) {
    std::optional<std::vector<FrameId>>& known = paths_[index(stack)];
    if (known) return *known;
    std::vector<FrameId>& path = known.emplace();
    const bool has_python = stacks_[index(stack)].has_python;
    for (; stack != StackId::none; stack = tables_[stack].caller) {
      if (stacks_[index(stack)].in_module) continue;
      const FrameId frame = tables_[stack].frame;
      if (has_python ? tables_[frame].kind == FrameKind::python : !is_hidden(tables_[frame].kind))
        path.push_back(same_[index(frame)]);
    }
    std::ranges::reverse(path);
    if (path.size() > deepest) path.resize(deepest);
    return path;
  }

  const Tables& tables_;
  const std::vector<StackMeaning>& stacks_;
  std::vector<FrameId> same_;
  std::vector<std::optional<std::vector<FrameId>>> paths_;  // by stack
};

/// Goes from the outermost function inwards until the lines of one recur. A program's lines follow each other; a loop
/// comes back to one.
Rounds rounds_of_lines(const Trace& trace, const std::vector<StackMeaning>& stacks,
                       std::vector<std::uint32_t> allocations) {
  Paths paths(trace.tables, stacks);
  for (std::size_t depth = 0; depth < deepest && allocations.size() >= 2 * fewest_rounds; ++depth) {
    std::unordered_map<FrameId, std::uint32_t> symbols;
    std::vector<FrameId> frames;
    std::vector<std::uint32_t> sequence;
    std::vector<std::optional<std::uint32_t>> of_stack(trace.tables.stacks.size());
    for (const std::uint32_t event : allocations) {
      const StackId stack = trace.events.stack(event);
      std::optional<std::uint32_t>& symbol = of_stack[index(stack)];
      if (!symbol) {
        const FrameId frame = paths.frame(stack, depth);
        symbol = symbols.try_emplace(frame, static_cast<std::uint32_t>(frames.size())).first->second;
        if (*symbol == frames.size()) frames.push_back(frame);
      }
      sequence.push_back(*symbol);
    }
    const Runs runs(sequence);
    std::size_t recurring = 0, best = frames.size(), largest = 0;
    for (std::size_t s = 0; s < frames.size(); ++s) {
      const std::size_t count = runs.begins[s].size();
      if (count > 1) recurring += runs.lengths[s];
      if (runs.lengths[s] > runs.lengths[largest]) largest = s;
      if (count < 2 || !cover(runs.begins[s], sequence.size())) continue;
      const bool is_fewer = best == frames.size() || count < runs.begins[best].size();
      const bool suffices = count >= fewest_rounds;
      const bool best_suffices = best < frames.size() && runs.begins[best].size() >= fewest_rounds;
      if (suffices == best_suffices ? is_fewer : suffices) best = s;
    }
    if (best < frames.size() && 2 * recurring >= sequence.size()) {
      Rounds rounds{.source = RoundSource::repetition, .last_is_open = true};
      if (frames[best] != FrameId::none) rounds.name = line_label(frame_text(trace.tables, frames[best]));
      for (std::size_t i = 1; i < runs.begins[best].size(); ++i)
        rounds.ends.push_back(allocations[runs.begins[best][i]]);
      return rounds;
    }
    if (frames[largest] == FrameId::none || 2 * runs.lengths[largest] < sequence.size()) return {};
    std::vector<std::uint32_t> inside;
    for (std::size_t i = 0; i < sequence.size(); ++i)
      if (sequence[i] == largest) inside.push_back(allocations[i]);
    allocations = std::move(inside);
  }
  return {};
}

/// The share of the bytes allocated in these rounds that was also freed in them, not only when the program ended.
double share_freed(const Trace& trace, const Rounds& rounds, std::span<const std::uint32_t> allocations) {
  if (rounds.ends.empty()) return 0;
  const Events& events = trace.events;
  std::vector<char> is_counted(trace.events.allocation_count());
  for (const std::uint32_t event : allocations)
    if (event < rounds.ends.back()) is_counted[index(events.allocation(event))] = 1;
  double allocated = 0, freed = 0;
  for (std::uint32_t i = 0; i < rounds.ends.back(); ++i) {
    if (events.allocation(i) == AllocationId::none || is_counted[index(events.allocation(i))] == 0) continue;
    const auto bytes = static_cast<double>(events.size(i).count);
    if (events.kind(i) == EventKind::alloc) allocated += bytes;
    if (events.kind(i) == EventKind::free_requested) freed += bytes;
  }
  return allocated == 0 ? 0 : freed / allocated;
}

Rounds rounds_of_repetition(const Trace& trace, const std::vector<StackMeaning>& stacks, const Captured& captured) {
  std::vector<std::uint32_t> allocations = own_allocations(trace);
  std::erase_if(allocations, captured);
  const bool has_stacks =
      std::ranges::any_of(allocations, [&](std::uint32_t event) { return trace.events.stack(event) != StackId::none; });
  Rounds rounds;
  if (has_stacks) {
    std::erase_if(allocations, [&](std::uint32_t event) { return trace.events.stack(event) == StackId::none; });
    // A loop in Python does not show where most is requested by native code that shows no Python, as XLA's.
    const auto with_python = static_cast<std::size_t>(std::ranges::count_if(
        allocations, [&](std::uint32_t event) { return stacks[index(trace.events.stack(event))].has_python; }));
    if (with_python == 0 || 2 * with_python >= allocations.size()) rounds = rounds_of_lines(trace, stacks, allocations);
  } else {
    const std::vector<std::uint32_t> begins = begins_by_size(trace, allocations);
    if (!begins.empty()) rounds = {.source = RoundSource::repetition, .last_is_open = true};
    for (std::size_t i = 1; i < begins.size(); ++i) rounds.ends.push_back(allocations[begins[i]]);
  }
  const double least = ends_in_failure(trace, rounds.ends) ? least_freed_before_failure : least_freed;
  if (rounds.suffice() && share_freed(trace, rounds, allocations) < least) return {};
  return rounds;
}

void cut_off_failed_round(const Trace& trace, Rounds& rounds) {
  if (rounds.source == RoundSource::none || !ends_in_failure(trace, rounds.ends)) return;
  rounds.last_is_open = false;
  rounds.unfinished = true;
}

}  // namespace

Rounds unmarked_rounds(const Trace& trace, std::span<const HeapPools> pools) {
  const std::vector<const FrameRule*> rules = rules_of_frames(trace.tables);
  const std::vector<StackMeaning> stacks = stack_meanings(trace.tables, rules);
  const ModuleCalls modules(trace.tables, rules);
  const Captured captured(trace, pools);
  const Course course = CourseFinder(trace, stacks, modules, captured).find();
  Rounds rounds = rounds_of_course(trace, course, modules);
  if (rounds.source == RoundSource::none && !course.has_modules) rounds = rounds_of_repetition(trace, stacks, captured);
  if (rounds.source == RoundSource::optimizer) drop_empty(rounds.ends, own_allocations(trace));
  cut_off_failed_round(trace, rounds);
  return rounds;
}

Rounds find_rounds(const Trace& trace, HeapId heap, const std::function<Rounds()>& unmarked) {
  Steps steps = find_steps(trace, heap);
  if (steps.ends.empty() || steps.mark.starts_with(optimizer_mark)) return unmarked();
  Rounds marked{.source = RoundSource::marks, .name = std::move(steps.mark), .ends = std::move(steps.ends)};
  const std::vector<std::uint32_t> allocations = own_allocations(trace);
  drop_empty(marked.ends, allocations);
  // A profiler marks the first few steps only.
  if (!go_on(marked.ends, allocations)) {
    Rounds others = unmarked();
    const bool has_passes = others.source == RoundSource::optimizer || others.source == RoundSource::backward;
    if (has_passes && !go_on(marked.ends, others.ends)) return others;
  }
  cut_off_failed_round(trace, marked);
  return marked;
}

Rounds find_rounds(const Trace& trace, HeapId heap) {
  return find_rounds(trace, heap, [&] { return unmarked_rounds(trace, private_pools(trace)); });
}

std::string text_of(const Rounds& rounds) {
  const std::uint32_t count = rounds.count();
  if (rounds.source == RoundSource::none) return "not judged: the recording shows no loop of steps";
  if (count == 0) return "not judged: the recording holds no whole step";
  if (!rounds.suffice())
    return "not judged: the recording holds " + std::to_string(count) + (count == 1 ? " step" : " steps");
  if (rounds.source == RoundSource::time)
    return std::to_string(count) + " intervals of " + rounds.name + ", from the recorder's sums";
  return std::to_string(count) + " steps, " + how_found(rounds);
}

std::string how_found(const Rounds& rounds) {
  switch (rounds.source) {
    case RoundSource::marks:
      return "from the marks \"" + rounds.name + "\"";
    case RoundSource::optimizer:
      return "each a pass of the optimizer";
    case RoundSource::backward:
      return "each a backward pass";
    case RoundSource::modules:
      return "each a call of the model" + (rounds.name.empty() ? "" : " at " + rounds.name);
    default:
      return rounds.name.empty() ? "found by sizes that recur" : "found by what recurs at " + rounds.name;
  }
}

}  // namespace memreel
