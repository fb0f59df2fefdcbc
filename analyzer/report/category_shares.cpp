#include "analyzer/report/category_shares.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analyzer/category/layers.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/own_frame.h"

namespace memreel {
namespace {

struct Tally {
  Bytes bytes;
  std::uint64_t count = 0;
  std::map<Evidence, Bytes> by_evidence;
  std::map<StackId, Bytes> by_stack;
};

std::vector<CategoryShare::Holder> holders_of(const Trace& trace, const Categories& categories, const Tally& tally) {
  std::map<std::string, Bytes> by_label;
  for (const auto& [stack, bytes] : tally.by_stack) {
    by_label[holder_label(trace.tables, categories, stack)] += bytes;
  }
  std::vector<CategoryShare::Holder> holders;
  for (const auto& [label, bytes] : by_label) holders.push_back({label, bytes});
  std::ranges::stable_sort(holders, std::ranges::greater{}, &CategoryShare::Holder::bytes);
  return holders;
}

/// Of the allocations that forward passes keep for a backward pass that never runs, those of earlier passes: they are
/// freed, or older than the recording, before the latest one's. No allocation lies between the frees of one pass.
Bytes earlier_graphs(const Trace& trace, const std::vector<Lifetime>& lives, std::vector<AllocationId> graphs) {
  const auto end_of = [&](AllocationId id) { return lives[index(id)].requested; };
  std::ranges::sort(graphs, {}, end_of);
  const auto latest = std::ranges::max_element(graphs, {}, [&](AllocationId id) { return lives[index(id)].begin; });
  auto first = latest;
  for (; first != graphs.begin(); --first) {
    const std::uint32_t end = std::min<std::uint32_t>(end_of(*first), static_cast<std::uint32_t>(trace.events.count()));
    bool allocates = false;
    for (std::uint32_t i = end_of(*std::prev(first)); i < end && !allocates; ++i)
      allocates = trace.events.kind[i] == EventKind::alloc;
    if (allocates) break;
  }
  Bytes bytes;
  for (auto id = graphs.begin(); id != first; ++id) bytes += trace.events.size[lives[index(*id)].begin];
  return bytes;
}

}  // namespace

std::string holder_label(const Tables& tables, const Categories& categories, StackId stack) {
  FrameText place = layer_frame(tables, categories.stacks, stack);
  if (place.file.empty()) {
    const std::vector<FrameText> frames = frames_of(tables, stack);
    if (frames.empty()) return std::string(no_stack_label);
    place = explaining_frame(frames);
  }
  return short_label(place);
}

std::vector<CategoryShare> category_shares(const Trace& trace, const std::vector<Lifetime>& lives,
                                           const Categories& categories, HeapId heap, std::uint64_t events) {
  std::array<Tally, category_count> tallies;
  std::vector<AllocationId> graphs;
  Bytes in_graphs, older;
  for (std::uint32_t a = 0; a < lives.size(); ++a) {
    if (!lives[a].live_after(events)) continue;
    const std::uint32_t begin = lives[a].begin;
    if (trace.tables[trace.events.origin[begin]].heap != heap) continue;
    Tally& tally = tallies.at(static_cast<std::size_t>(categories.category(AllocationId{a})));
    const Bytes size = trace.events.size[begin];
    switch (categories.evidence[a]) {
      case Evidence::kept_graph:
      case Evidence::forward_at_end:
        graphs.push_back(AllocationId{a});
        in_graphs += size;
        break;
      case Evidence::graph_before_recording:
        older += size;
        break;
      default:
        break;
    }
    tally.bytes += size;
    ++tally.count;
    tally.by_evidence[categories.evidence[a]] += size;
    tally.by_stack[trace.events.stack[begin]] += size;
  }
  std::vector<CategoryShare> shares;
  for (std::size_t c = 0; c < category_count; ++c) {
    const Tally& tally = tallies.at(c);
    if (tally.count == 0) continue;
    const auto most = std::ranges::max_element(tally.by_evidence, {}, [](const auto& entry) { return entry.second; });
    shares.push_back({.category = static_cast<Category>(c),
                      .bytes = tally.bytes,
                      .count = tally.count,
                      .evidence = most->first,
                      .holders = holders_of(trace, categories, tally)});
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, &CategoryShare::bytes);
  const auto activations = std::ranges::find(shares, Category::activation, &CategoryShare::category);
  if (activations == shares.end() || std::ranges::find(categories.phase, Phase::backward) != categories.phase.end())
    return shares;
  const Bytes earlier = graphs.empty() ? 0_B : earlier_graphs(trace, lives, std::move(graphs));
  activations->graph = in_graphs - earlier;
  activations->earlier_graphs = earlier + older;
  return shares;
}

bool says_something(std::span<const CategoryShare> shares) {
  return std::ranges::any_of(shares, [](const CategoryShare& share) { return share.category != Category::unknown; });
}

}  // namespace memreel
