// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyzer/analysis/category/classify.h"

namespace memreel {
namespace {

/// What a program made before its first forward pass and the optimizer frees in its first step, by the stack in it
/// whose memory of the same size takes its place: the newest when it is freed, or what takes that one's.
std::map<StackId, std::vector<AllocationId>> replaced_in_first_step(const Trace& trace, const Observations& seen,
                                                                    const std::vector<Evidence>& evidence) {
  std::unordered_map<std::uint64_t, std::vector<AllocationId>> made;  // in the step, by size, oldest first
  std::vector<std::pair<AllocationId, AllocationId>> successors;      // of what is freed, in the order of frees
  std::uint32_t step = never;
  const Phases& phases = seen.activity.phases;
  const auto frees = [&](const Observation& of) {
    return of.end != never &&
           (phases.frees_have_stacks ? phases.of_event[of.end] == Phase::optimizer : of.freed_in == step);
  };
  for (std::uint32_t i = 0; i < trace.events.count(); ++i) {
    const AllocationId id = trace.events.allocation(i);
    if (id == AllocationId::none) continue;
    const Observation& of = seen.allocations[index(id)];
    if (of.begin == i && of.phase == Phase::optimizer) {
      if (step == never && evidence[index(id)] == Evidence::optimizer_keeps) step = of.made_in;
      if (step != never && of.made_in != step) break;
      made[of.size.count].push_back(id);
    } else if (of.end == i && frees(of)) {
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

/// What each of these stacks made in its first step and keeps, by size.
std::map<StackId, SizeCounts> made_in_first_step(const Observations& seen, const std::vector<Evidence>& evidence,
                                                 const std::map<StackId, std::vector<AllocationId>>& replaced) {
  std::map<StackId, SizeCounts> made;
  std::map<StackId, std::uint32_t> first_step;
  for (std::uint32_t id = 0; id < evidence.size(); ++id) {
    const Observation& of = seen.allocations[id];
    if (evidence[id] != Evidence::optimizer_keeps || !replaced.contains(of.stack)) continue;
    if (first_step.try_emplace(of.stack, of.made_in).first->second == of.made_in) made[of.stack].add(of.size);
  }
  return made;
}

/// As many of them as were made, size by size.
std::vector<AllocationId> matching(const std::vector<AllocationId>& replaced, const SizeCounts& made,
                                   const Observations& seen) {
  std::vector<AllocationId> matched;
  SizeCounts sizes;
  for (const AllocationId id : replaced) {
    const Bytes size = seen.allocations[index(id)].size;
    if (sizes.count(size) < made.count(size)) matched.push_back(id);
    sizes.add(size);
  }
  return matched;
}

}  // namespace

void conclude_rebound(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence) {
  if (std::ranges::find(evidence, Evidence::optimizer_keeps) == evidence.end()) return;
  std::map<StackId, std::vector<AllocationId>> replaced = replaced_in_first_step(trace, seen, evidence);
  const std::map<StackId, SizeCounts> made = made_in_first_step(seen, evidence, replaced);
  const auto begin = [&](AllocationId id) { return seen.allocations[index(id)].begin; };
  for (auto& [stack, ids] : replaced) std::ranges::sort(ids, {}, begin);
  // Most of what the stack made: what is freed in the step has the size of some of it by chance.
  std::erase_if(replaced, [&](const auto& of) {
    const SizeCounts& here = made.at(of.first);
    return 2 * matching(of.second, here, seen).size() <= here.total();
  });
  const auto site = std::ranges::min_element(replaced, {}, [&](const auto& of) { return begin(of.second.front()); });
  if (site == replaced.end()) return;
  const SizeCounts& here = made.at(site->first);
  std::uint32_t in_place = 0;
  for (std::uint32_t id = 0; id < evidence.size(); ++id) {
    const Observation& of = seen.allocations[id];
    if (evidence[id] == Evidence::none && of.begin != never && of.phase == Phase::other &&
        seen.is_kept_from_setup(of) && here.has(of.size))
      ++in_place;
  }
  if (here.total() < 2 || 2 * in_place >= here.total()) return;
  for (const AllocationId id : site->second) evidence[index(id)] = Evidence::optimizer_keeps;
  for (const AllocationId id : matching(site->second, here, seen)) evidence[index(id)] = Evidence::rebound_parameter;
  for (std::uint32_t id = 0; id < evidence.size(); ++id)
    if (evidence[id] == Evidence::optimizer_keeps && seen.allocations[id].stack == site->first)
      evidence[id] = Evidence::rebound_parameter;
}

}  // namespace memreel
