// SPDX-License-Identifier: Apache-2.0
#include "analyzer/category/layer_calls.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace memreel {
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
  Passes(const Trace& trace, std::span<const StackMeaning> stacks, const Phases& phases)
      : trace_(trace), stacks_(stacks), phases_(phases) {}

  /// Calls `visit(begin, end)` with the allocations of each forward pass, while their sites and lines are available.
  void for_each(auto&& visit) {
    const auto count = static_cast<std::uint32_t>(trace_.allocation_events.size());
    for (std::uint32_t begin = 0, end = 0; begin < count; begin = end) {
      const std::uint32_t pass = pass_of(begin);
      while (end < count && pass_of(end) == pass) ++end;
      if (phases_.of_pass[pass] != Phase::forward) continue;
      count_sites(begin, end);
      count_lines();
      visit(begin, end);
    }
  }

  StackId stack_of(std::uint32_t allocation) const { return trace_.events.stack[trace_.allocation_events[allocation]]; }
  /// The next line outwards, from a stack or from a line.
  StackId line_of(StackId stack) const { return stacks_[index(stack)].layer; }
  StackId line_around(StackId line) const { return line_of(trace_.tables[line].caller); }
  const std::unordered_map<std::uint32_t, Runs>& lines() const { return lines_; }
  Runs runs_of(StackId line) const {
    const auto found = lines_.find(index(line));
    return found == lines_.end() ? Runs{} : found->second;
  }
  std::uint32_t made_by(StackId site) const { return sites_.at(index(site)); }

 private:
  std::uint32_t pass_of(std::uint32_t allocation) const {
    return phases_.pass_of[trace_.allocation_events[allocation]];
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
  std::span<const StackMeaning> stacks_;
  const Phases& phases_;
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

LayerCalls find_layer_calls(const Trace& trace, std::span<const StackMeaning> stacks, const Phases& phases) {
  if (std::ranges::any_of(stacks, [](const StackMeaning& stack) { return stack.call != StackId::none; })) return {};
  Passes passes(trace, stacks, phases);
  const auto usual = usual_runs(passes);
  if (usual.empty()) return {};
  LayerCalls calls{.line = std::vector<StackId>(stacks.size(), StackId::none),
                   .number = std::vector<std::uint16_t>(trace.allocation_events.size(), LayerCalls::none)};
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
