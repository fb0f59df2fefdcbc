// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/kept_graphs.h"

#include <algorithm>

namespace memreel {
namespace {

/// A number takes no more: PyTorch rounds sizes up to it.
constexpr Bytes most_of_number = 512_B;

class Finder {
 public:
  Finder(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories, std::uint64_t events)
      : trace_(trace), lives_(lives), phases_(categories.activity->phases), events_(events) {}

  void see(AllocationId id, Evidence evidence) {
    switch (evidence) {
      case Evidence::kept_graph:
      case Evidence::forward_at_end:
        graphs_.push_back(id);
        break;
      case Evidence::graph_before_recording:
        older_.push_back(id);
        break;
      case Evidence::autocast_copy:
        found_.autocast += size_of(id);
        break;
      case Evidence::held_past_backward:
        if (is_past_backward(id)) found_.past_backward += size_of(id);
        break;
      default:
        break;
    }
  }

  KeptGraphs found() && {
    if (phases_.has_backward) return {.past_backward = found_.past_backward};
    const std::size_t earlier = count_earlier();
    for (std::size_t i = 0; i < graphs_.size(); ++i)
      (i < earlier ? found_.earlier : found_.running) += size_of(graphs_[i]);
    for (const AllocationId id : older_) found_.earlier += size_of(id);
    older_.insert(older_.end(), graphs_.begin(), graphs_.begin() + static_cast<std::ptrdiff_t>(earlier));
    if (!older_.empty()) found_.by_loss = goes_with_number(older_);
    return found_;
  }

 private:
  const Lifetime& life(AllocationId id) const { return lives_[index(id)]; }
  Bytes size_of(AllocationId id) const { return trace_.events.size(life(id).begin); }

  bool allocates_between(std::uint32_t begin, std::uint32_t end) const {
    end = std::min(end, static_cast<std::uint32_t>(trace_.events.count()));
    for (std::uint32_t i = begin; i < end; ++i)
      if (trace_.events.kind(i) == EventKind::alloc) return true;
    return false;
  }

  /// Sorts the graphs by their ends, and returns how many of them earlier passes left: they are freed before the latest
  /// one's. No allocation lies between the frees of one pass.
  std::size_t count_earlier() {
    if (graphs_.empty()) return 0;
    const auto end_of = [&](AllocationId id) { return life(id).requested; };
    std::ranges::sort(graphs_, {}, end_of);
    const auto latest = std::ranges::max_element(graphs_, {}, [&](AllocationId id) { return life(id).begin; });
    auto first = latest;
    while (first != graphs_.begin() && !allocates_between(end_of(*std::prev(first)), end_of(*first))) --first;
    return static_cast<std::size_t>(first - graphs_.begin());
  }

  /// Whether the first of these to be freed, or what is freed just before it, is a number: they went with it.
  bool goes_with_number(const std::vector<AllocationId>& ids) const {
    const AllocationId first = *std::ranges::min_element(ids, {}, [&](AllocationId id) { return life(id).requested; });
    std::uint32_t event = life(first).requested;
    if (event == never) return false;
    if (is_number(first)) return true;
    while (event-- > 0 && trace_.events.kind(event) != EventKind::alloc)
      if (trace_.events.kind(event) == EventKind::free_requested) return is_number(trace_.events.allocation(event));
    return false;
  }

  bool is_number(AllocationId id) const {
    return id != AllocationId::none && life(id).begin != never && size_of(id) <= most_of_number;
  }

  /// Whether a backward pass has run since, and ended.
  bool is_past_backward(AllocationId id) const {
    const std::uint32_t made = phases_.pass_of(life(id).begin);
    const std::uint32_t now = phases_.pass_of(static_cast<std::uint32_t>(std::max<std::uint64_t>(events_, 1) - 1));
    for (std::uint32_t pass = made + 1; pass < now; ++pass)
      if (phases_.of_pass[pass] == Phase::backward) return true;
    return false;
  }

  const Trace& trace_;
  const std::vector<Lifetime>& lives_;
  const Phases& phases_;
  std::uint64_t events_;
  std::vector<AllocationId> graphs_, older_;
  KeptGraphs found_;
};

}  // namespace

KeptGraphs kept_graphs(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories,
                       HeapId heap, std::uint64_t events) {
  if (!categories.activity) return {};
  Finder finder(trace, lives, categories, events);
  for (std::uint32_t a = 0; a < lives.size(); ++a)
    if (lives[a].live_after(events) && trace.tables[trace.events.origin(lives[a].begin)].heap == heap)
      finder.see(AllocationId{a}, categories.evidence[a]);
  return std::move(finder).found();
}

}  // namespace memreel
