// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "analyzer/analysis/category/observations.h"

namespace memreel {
namespace {

/// So many finished allocations of a stack tell what becomes of the next one.
constexpr std::uint32_t least_finished = 2;

/// What became of a stack's allocations.
struct Fates {
  std::uint32_t freed_in_pass = 0;
  bool last = false;  // longer than their pass, or than until the stack's next one is made

  bool are_temporaries() const { return freed_in_pass >= least_finished && !last; }
};

class Interrupted {
 public:
  Interrupted(const Trace& trace, Observations& seen) : trace_(trace), seen_(seen) {}

  void find() {
    std::map<StackId, std::vector<AllocationId>> sites;
    for (std::uint32_t id = 0; id < seen_.allocations.size(); ++id) {
      const Observation& of = seen_.allocations[id];
      if (of.graph == Graph::none) continue;
      PassGraph& graph = graphs_[of.made_in];
      graph.begin = std::min(graph.begin, of.begin);
      ++graph.count;
      sites.try_emplace(of.stack);
    }
    if (sites.empty()) return;
    for (std::uint32_t id = 0; id < seen_.allocations.size(); ++id)
      if (const Observation& of = seen_.allocations[id]; of.begin != never && of.phase == Phase::forward)
        if (const auto site = sites.find(of.stack); site != sites.end()) site->second.push_back(AllocationId{id});
    for (const auto& [stack, ids] : sites) judge(ids);
    for (const auto& [pass, ids] : temporaries_)
      if (2 * ids.size() < graphs_.at(pass).count)
        for (const AllocationId id : ids) of(id).graph = Graph::none;
  }

 private:
  struct PassGraph {
    std::uint32_t begin = never;  // event that made the first of it
    std::uint32_t count = 0;
  };

  Observation& of(AllocationId id) { return seen_.allocations[index(id)]; }
  HeapId heap_of(AllocationId id) { return trace_.tables[trace_.events.origin(of(id).begin)].heap; }

  bool is_trained(std::uint32_t pass) const {
    const std::vector<Phase>& phases = seen_.activity.phases.of_pass;
    return pass + 1 < phases.size() && phases[pass + 1] == Phase::backward;
  }

  static void see(Fates& fates, const Observation& of) {
    if (of.is_freed() && of.freed_in == of.made_in && !of.freed_by_backward)
      ++fates.freed_in_pass;
    else
      fates.last = true;
  }

  /// The allocations of one stack, oldest first.
  void judge(const std::vector<AllocationId>& ids) {
    Fates trained;                                            // in passes with a backward pass
    std::map<std::uint32_t, Fates> beside;                    // by pass, while its graph grew
    std::map<std::uint32_t, std::vector<AllocationId>> left;  // by pass, in its graph
    std::map<HeapId, AllocationId> latest;
    for (const AllocationId id : ids) {
      const Observation& made = of(id);
      const auto graph = graphs_.find(made.made_in);
      const bool is_beside = graph != graphs_.end() && made.begin >= graph->second.begin;
      if (made.graph != Graph::none) {
        left[made.made_in].push_back(id);
      } else {
        if (is_trained(made.made_in)) see(trained, made);
        if (is_beside) see(beside[made.made_in], made);
      }
      const auto [before, is_first] = latest.try_emplace(heap_of(id), id);
      if (const Observation& previous = of(before->second);
          !is_first && is_beside && previous.made_in == made.made_in && previous.begin >= graph->second.begin &&
          previous.end > made.begin)
        beside[made.made_in].last = true;
      before->second = id;
    }
    for (const auto& [pass, in_graph] : left)
      if ((beside[pass].are_temporaries() && are_of_different_heaps(in_graph)) ||
          (trained.are_temporaries() && !beside[pass].last))
        temporaries_[pass].insert(temporaries_[pass].end(), in_graph.begin(), in_graph.end());
  }

  bool are_of_different_heaps(const std::vector<AllocationId>& ids) {
    std::set<HeapId> heaps;
    return std::ranges::all_of(ids, [&](AllocationId id) { return heaps.insert(heap_of(id)).second; });
  }

  const Trace& trace_;
  Observations& seen_;
  std::unordered_map<std::uint32_t, PassGraph> graphs_;                       // by pass
  std::unordered_map<std::uint32_t, std::vector<AllocationId>> temporaries_;  // by pass
};

}  // namespace

void take_temporaries_from_graphs(const Trace& trace, Observations& seen) { Interrupted(trace, seen).find(); }

}  // namespace memreel
