// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyzer/analysis/category/classify.h"

namespace memreel {
namespace {

/// What a program made before its first forward pass and frees in the optimizer's first step, by the stack in it whose
/// memory of the same size takes its place: the newest when it is freed, or what takes that one's.
std::map<StackId, std::vector<AllocationId>> replaced_in_first_step(const Trace& trace, const Observations& seen,
                                                                    const std::vector<Evidence>& evidence) {
  std::unordered_map<std::uint64_t, std::vector<AllocationId>> made;  // in the step, by size, oldest first
  std::vector<std::pair<AllocationId, AllocationId>> successors;      // of what is freed, in the order of frees
  std::uint32_t step = never;
  for (std::uint32_t i = 0; i < trace.events.count(); ++i) {
    const AllocationId id = trace.events.allocation(i);
    if (id == AllocationId::none) continue;
    const Observation& of = seen.allocations[index(id)];
    if (of.begin == i && of.phase == Phase::optimizer) {
      if (step == never && evidence[index(id)] == Evidence::optimizer_keeps) step = of.made_in;
      if (step != never && of.made_in != step) break;
      made[of.size.count].push_back(id);
    } else if (of.end == i) {
      const auto same = made.find(of.size.count);
      if (same == made.end()) continue;
      std::vector<AllocationId>& live = same->second;
      while (!live.empty() && seen.allocations[index(live.back())].end <= i) live.pop_back();
      if (!live.empty()) successors.emplace_back(id, live.back());
    }
  }
  std::map<StackId, std::vector<AllocationId>> replaced;
  std::unordered_map<AllocationId, AllocationId> last;  // that takes its place
  for (auto pair = successors.rbegin(); pair != successors.rend(); ++pair) {
    const auto& [id, successor] = *pair;
    const auto later = last.find(successor);
    const AllocationId heir = later == last.end() ? successor : later->second;
    last[id] = heir;
    const Observation& of = seen.allocations[index(id)];
    if (!of.older && of.begin < seen.first_forward && of.phase == Phase::other &&
        evidence[index(heir)] == Evidence::optimizer_keeps)
      replaced[seen.allocations[index(heir)].stack].push_back(id);
  }
  return replaced;
}

}  // namespace

void conclude_rebound(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence) {
  if (std::ranges::find(evidence, Evidence::optimizer_keeps) == evidence.end()) return;
  std::map<StackId, std::vector<AllocationId>> replaced = replaced_in_first_step(trace, seen, evidence);
  const auto begin = [&](AllocationId id) { return seen.allocations[index(id)].begin; };
  for (auto& [stack, ids] : replaced) std::ranges::sort(ids, {}, begin);
  const auto site = std::ranges::min_element(replaced, {}, [&](const auto& of) { return begin(of.second.front()); });
  if (site == replaced.end()) return;
  const auto is_made_there = [&](std::uint32_t id) {
    return evidence[id] == Evidence::optimizer_keeps && seen.allocations[id].stack == site->first;
  };
  std::unordered_map<std::uint64_t, std::uint32_t> made;  // by size, in the first step
  std::uint32_t first_step = never, rebound = 0, in_place = 0;
  for (std::uint32_t id = 0; id < evidence.size(); ++id) {
    if (!is_made_there(id)) continue;
    const Observation& of = seen.allocations[id];
    if (first_step == never) first_step = of.made_in;
    if (of.made_in != first_step) continue;
    ++made[of.size.count];
    ++rebound;
  }
  for (std::uint32_t id = 0; id < evidence.size(); ++id) {
    const Observation& of = seen.allocations[id];
    if (evidence[id] == Evidence::none && of.begin != never && of.phase == Phase::other &&
        seen.is_kept_from_setup(of) && made.contains(of.size.count))
      ++in_place;
  }
  if (rebound < 2 || 2 * in_place >= rebound) return;
  for (const AllocationId id : site->second) {
    std::uint32_t& left = made[seen.allocations[index(id)].size.count];
    evidence[index(id)] = left > 0 ? Evidence::rebound_parameter : Evidence::optimizer_keeps;
    if (left > 0) --left;
  }
  for (std::uint32_t id = 0; id < evidence.size(); ++id)
    if (is_made_there(id)) evidence[id] = Evidence::rebound_parameter;
}

}  // namespace memreel
