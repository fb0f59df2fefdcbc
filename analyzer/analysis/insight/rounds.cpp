// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/rounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "analyzer/analysis/category/frame_rules.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/course.h"
#include "analyzer/analysis/insight/private_pools.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/replay/steps.h"
#include "formats/model/frame_kind.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

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

/// Whether the recording ends with a failure: no round was completed after its last failed request.
bool ends_in_failure(const Trace& trace, const std::vector<std::uint32_t>& ends) {
  const auto kinds = trace.events.kinds();
  for (std::size_t i = kinds.size(); i-- > (ends.empty() ? 0 : ends.back());)
    if (kinds[i] == EventKind::alloc_failed) return true;
  return false;
}

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

using Calls = std::span<const std::pair<std::uint32_t, std::uint32_t>>;

/// Where rounds of calls begin, each with the first that is reached again, or with the first of another loop: a program
/// that warms up in one loop and measures in the next.
std::vector<std::uint32_t> begins_of_rounds(Calls calls) {
  struct Site {
    std::size_t first = 0, last = 0, count = 0;
  };
  std::unordered_map<std::uint32_t, Site> sites;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Site& site = sites.try_emplace(calls[i].second, Site{.first = i}).first->second;
    site.last = i;
    ++site.count;
  }
  std::vector<std::uint32_t> begins;
  std::set<std::uint32_t> called;  // in this round
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto& [event, id] = calls[i];
    const auto is_of_earlier_loop = [&](std::uint32_t other) {
      return sites[other].last < i && sites[other].count > 1;
    };
    const bool begins_loop =
        sites[id].first == i && sites[id].count > 1 && std::ranges::all_of(called, is_of_earlier_loop);
    if (!begins.empty() && !begins_loop && called.insert(id).second) continue;
    begins.push_back(event);
    called = {id};
  }
  return begins;
}

/// The line that makes most of the calls: what recurs is the loop, not what comes before it.
std::string line_of(const Trace& trace, const Course& course, Calls calls) {
  std::map<std::uint32_t, std::size_t> count;  // by site
  for (const auto& [event, site] : calls) ++count[site];
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const FrameId caller = course.callers[std::ranges::max_element(count, less)->first];
  return caller == FrameId::none ? std::string() : line_label(frame_text(trace.tables, caller));
}

/// The lines whose calls begin rounds, the one of most first: "train.py:77 and bench.py:49". More than two are counted,
/// and those of one round, such as a warm-up, left out.
std::string lines_of(const Trace& trace, const Course& course, const std::vector<std::uint32_t>& begins) {
  std::map<std::string, std::size_t> count;
  for (const auto& [event, site] : course.calls)
    if (const FrameId caller = course.callers[site];
        caller != FrameId::none && std::ranges::binary_search(begins, event))
      ++count[line_label(frame_text(trace.tables, caller))];
  std::vector<std::pair<std::string, std::size_t>> lines(count.begin(), count.end());
  std::ranges::stable_sort(lines, std::greater{}, &std::pair<std::string, std::size_t>::second);
  if (lines.empty()) return {};
  std::erase_if(lines, [most = lines[0].second](const auto& line) { return line.second == 1 && most > 1; });
  if (lines.size() == 1) return lines[0].first;
  return lines[0].first + " and " +
         (lines.size() == 2 ? lines[1].first : std::to_string(lines.size() - 1) + " other lines");
}

Rounds rounds_of_calls(const Trace& trace, const Course& course) {
  std::vector<std::uint32_t> ends = begins_of_rounds(course.calls);
  std::string lines = lines_of(trace, course, ends);
  ends.erase(ends.begin());
  return {.source = RoundSource::modules, .name = std::move(lines), .ends = std::move(ends), .last_is_open = true};
}

/// What PyTorch's profiler says of each allocation shows passes without any stack: a forward pass makes activations,
/// and a backward pass temporaries. A pass that makes gradients begins a round; the next ones may add to them. None if
/// gradients are kept, and all later passes only add to them.
Rounds rounds_of_profiled_passes(const Trace& trace) {
  if (trace.header.source != profiled_source) return {};
  std::vector<std::uint32_t> passes, forward;  // events: the first of each, activations
  std::vector<std::size_t> first;              // of each round, among the passes
  bool is_backward = true;                     // or there is no pass yet
  for (const std::uint32_t event : own_allocations(trace)) {
    const Evidence evidence = evidence_of_profiler(trace.tables[trace.tables[trace.events.origin(event)].metadata]);
    const bool is_gradient = evidence == Evidence::profiled_gradient;
    if (!passes.empty() && (is_gradient || evidence == Evidence::profiled_autograd)) is_backward = true;
    if (is_gradient && !passes.empty() && (first.empty() || first.back() + 1 < passes.size()))
      first.push_back(first.empty() ? 0 : passes.size() - 1);
    if (evidence != Evidence::profiled_activation) continue;
    if (std::exchange(is_backward, false)) passes.push_back(event);
    forward.push_back(event);
  }
  if (first.empty()) return {};
  std::size_t each = 1;  // passes of a round
  for (std::size_t i = 1; i < first.size(); ++i) each = std::max(each, first[i] - first[i - 1]);
  const bool is_complete = is_backward && first.back() + each == passes.size();
  if (first.back() + each < passes.size()) first.push_back(first.back() + each);
  if (first.size() < 2 && !is_complete) return {};
  Rounds rounds{.source = RoundSource::backward, .last_is_open = is_complete, .unfinished = !is_complete};
  for (std::size_t i = 1; i < first.size(); ++i) rounds.ends.push_back(passes[first[i]]);
  return is_complete || go_on(rounds.ends, forward) ? rounds : Rounds{};
}

ModelCalls calls_after(const Trace& trace, const Course& course, std::uint32_t last_end) {
  const auto later = std::ranges::lower_bound(course.calls, std::pair(last_end, 0U));
  const Calls before{course.calls.begin(), later}, after{later, course.calls.end()};
  if (after.empty()) return {};
  std::vector<std::uint32_t> ends = begins_of_rounds(before);
  if (!ends.empty()) ends.erase(ends.begin());
  const std::vector<std::uint32_t> begins = begins_of_rounds(after);
  ends.insert(ends.end(), begins.begin(), begins.end());
  const bool failed = ends_in_failure(trace, ends);
  return {.ends = std::move(ends), .line = line_of(trace, course, after), .last_is_open = !failed};
}

/// The marks that PyTorch makes, as passes from the sites of those that are seen.
std::vector<Pass> marked_passes(const std::vector<std::uint32_t>& ends, std::span<const Pass> seen) {
  std::vector<Pass> marked;
  auto pass = seen.begin();
  for (const std::uint32_t end : ends) {
    marked.push_back({.end = end});
    for (; pass != seen.end() && pass->begin < end; ++pass) marked.back().site = pass->site;
  }
  return marked;
}

/// Passes on one device, if they go on until the end. `calls`: events.
Rounds rounds_of_passes(const Trace& trace, HeapId heap, const Passes& passes,
                        const std::vector<std::uint32_t>& calls) {
  const std::vector<std::uint32_t> backward = ends_of_iterations(trace.tables, passes.backward);
  std::vector<std::uint32_t> optimizer = ends_of_iterations(trace.tables, passes.optimizer);
  if (const Steps marks = find_steps(trace, heap); marks.are_of_optimizers())
    optimizer = ends_of_iterations(trace.tables, marked_passes(marks.ends, passes.optimizer));
  Rounds rounds;
  if (go_on(optimizer, backward) && (optimizer.size() >= fewest_rounds || go_on(optimizer, calls)))
    rounds = {.source = RoundSource::optimizer, .ends = std::move(optimizer)};
  else if (go_on(backward, calls))
    rounds = {.source = RoundSource::backward, .ends = backward};
  else
    return rounds;
  rounds.unfinished = !calls.empty() && calls.back() >= rounds.ends.back();
  return rounds;
}

int rank_of(const Rounds& rounds) {
  return rounds.source == RoundSource::optimizer ? 2 : rounds.source == RoundSource::backward ? 1 : 0;
}

/// By device. One that shows no such passes takes part in the loop of the one that shows most.
RoundsOfDevices rounds_of_course(const Trace& trace, const Course& course) {
  std::vector<std::uint32_t> calls;
  for (const auto& [event, site] : course.calls) calls.push_back(event);
  RoundsOfDevices devices;
  for (std::uint32_t heap = 0; heap < trace.tables.heaps.size(); ++heap) {
    const std::int32_t device = trace.tables[HeapId{heap}].device;
    const auto seen = course.devices.find(device);
    const bool has_passes = device >= 0 && seen != course.devices.end();
    if (!devices.contains(device))
      devices[device] = rounds_of_passes(trace, HeapId{heap}, has_passes ? seen->second : Passes{}, calls);
  }
  Rounds process;
  for (const auto& [device, rounds] : devices)
    if (std::pair(rank_of(rounds), rounds.ends.size()) > std::pair(rank_of(process), process.ends.size()))
      process = rounds;
  if (process.source == RoundSource::none && !calls.empty()) process = rounds_of_calls(trace, course);
  for (auto& [device, rounds] : devices) {
    if (rank_of(rounds) < rank_of(process) || rounds.source == RoundSource::none) rounds = process;
    if (rank_of(rounds) > 0) rounds.calls = calls_after(trace, course, rounds.ends.back());
  }
  return devices;
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

/// A size that one round requests several times begins parts of rounds. Of such parts, as many are one round as it
/// takes for the same sizes to follow again.
std::vector<std::uint32_t> whole_rounds(const Trace& trace, std::span<const std::uint32_t> allocations,
                                        const std::vector<std::uint32_t>& begins) {
  constexpr std::size_t most_parts = 16;
  std::map<std::vector<Bytes>, std::uint32_t> numbers;
  std::vector<std::uint32_t> parts;  // equal ones have the same number
  for (std::size_t i = 1; i < begins.size(); ++i) {
    std::vector<Bytes> sizes;
    for (std::uint32_t a = begins[i - 1]; a < begins[i]; ++a) sizes.push_back(trace.events.size(allocations[a]));
    parts.push_back(numbers.try_emplace(std::move(sizes), static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  for (std::size_t each = 1; each <= most_parts && begins.size() / each >= fewest_even; ++each) {
    std::size_t recurring = 0;
    for (std::size_t i = each; i < parts.size(); ++i) recurring += parts[i] == parts[i - each] ? 1U : 0U;
    if (4 * recurring < 3 * (parts.size() - each)) continue;
    std::vector<std::uint32_t> whole;
    for (std::size_t i = 0; i < begins.size(); i += each) whole.push_back(begins[i]);
    return whole;
  }
  return begins;
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
        return whole_rounds(trace, allocations, places[sizes.front()]);
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

RoundsOfDevices unmarked_rounds(const Trace& trace, const Activity& activity, std::span<const HeapPools> pools) {
  const Captured captured(trace, pools);
  const Course course = find_course(trace, activity, captured);
  RoundsOfDevices devices = rounds_of_course(trace, course);
  if (!course.has_modules && std::ranges::none_of(devices, [](const auto& of) { return rank_of(of.second) > 0; })) {
    Rounds others = rounds_of_profiled_passes(trace);
    if (others.source == RoundSource::none) others = rounds_of_repetition(trace, activity.stacks, captured);
    for (auto& [device, rounds] : devices) rounds = others;
  }
  for (auto& [device, rounds] : devices) {
    if (rounds.source == RoundSource::optimizer) drop_empty(rounds.ends, own_allocations(trace));
    cut_off_failed_round(trace, rounds);
  }
  return devices;
}

Rounds find_rounds(const Trace& trace, HeapId heap, const std::function<const RoundsOfDevices&()>& unmarked) {
  if (!trace.read.later.empty()) return {.source = RoundSource::several};
  const auto unmarked_here = [&] { return unmarked().at(trace.tables[heap].device); };
  Steps steps = find_steps(trace, heap);
  if (steps.ends.empty() || steps.are_of_optimizers()) return unmarked_here();
  Rounds marked{.source = RoundSource::marks, .name = std::move(steps.mark), .ends = std::move(steps.ends)};
  const std::vector<std::uint32_t> allocations = own_allocations(trace);
  drop_empty(marked.ends, allocations);
  // A profiler marks the first few steps only.
  if (!go_on(marked.ends, allocations)) {
    Rounds others = unmarked_here();
    if (rank_of(others) > 0 && !go_on(marked.ends, others.ends)) return others;
  }
  cut_off_failed_round(trace, marked);
  return marked;
}

Steps steps_of(const Rounds& rounds, std::uint64_t events) {
  const bool are_passes = rounds.source == RoundSource::marks || rounds.source == RoundSource::optimizer ||
                          rounds.source == RoundSource::backward || rounds.source == RoundSource::modules;
  if (!are_passes && !rounds.suffice()) return {};
  Steps steps{.mark = how_found(rounds), .ends = {}, .are_marked = false};
  if (const std::string place = " at " + rounds.name; steps.mark.ends_with(place)) steps.place = place;
  for (const std::uint32_t next : rounds.ends) steps.ends.push_back(next - 1);
  if (rounds.last_is_open && events > 0) steps.ends.push_back(static_cast<std::uint32_t>(events - 1));
  return steps;
}

std::string text_of(const Rounds& rounds) {
  const std::uint32_t count = rounds.count();
  if (rounds.source == RoundSource::several) return "not judged: the file holds several recordings";
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
      return std::string(optimizer_passes);
    case RoundSource::backward:
      return "each a backward pass";
    case RoundSource::modules:
      return "each a call of the model" + (rounds.name.empty() ? "" : " at " + rounds.name);
    default:
      return rounds.name.empty() ? "found by sizes that recur" : "found by what recurs at " + rounds.name;
  }
}

}  // namespace memreel
