#include "viewer/model/stack_weights.h"

#include <algorithm>
#include <map>
#include <utility>

#include "viewer/model/heap_at.h"

namespace memreel::viewer {

namespace {

/// Weights while they are added up, by stack.
class Scales {
 public:
  explicit Scales(const Document& document) : document_(document), by_stack_(document.tables->stacks.size()) {}

  void add(std::uint32_t id) {
    StackWeight& weight = by_stack_[index(document_.stack_of(id))];
    const std::uint64_t size = document_.size_of(id).count;
    weight.bytes += size;
    ++weight.count;
    if (size >= weight.largest) {
      weight.largest = size;
      weight.example = id;
    }
  }

  std::vector<StackWeight> weights() && {
    std::vector<StackWeight> weights;
    for (std::size_t s = 0; s < by_stack_.size(); ++s) {
      if (by_stack_[s].count == 0) continue;
      by_stack_[s].stack = StackId{static_cast<std::uint32_t>(s)};
      weights.push_back(by_stack_[s]);
    }
    std::ranges::stable_sort(weights, std::ranges::greater{}, &StackWeight::bytes);
    return weights;
  }

 private:
  const Document& document_;
  std::vector<StackWeight> by_stack_;
};

/// A frame of a flame graph while weights are added up.
struct Node {
  FlameNode shown;
  std::map<std::uint64_t, std::uint32_t> children;
};

/// By depth, the heaviest child leftmost.
std::vector<FlameNode> lay_out(std::vector<Node> nodes) {
  std::vector<FlameNode> flame;
  const auto total = static_cast<double>(std::max<std::uint64_t>(nodes[0].shown.bytes, 1));
  std::vector<std::uint32_t> level{0};  // nodes of one depth, by their numbers in `nodes`
  std::vector<std::uint32_t> place(nodes.size());
  nodes[0].shown.end = 1;
  while (!level.empty()) {
    std::vector<std::uint32_t> below;
    for (const std::uint32_t n : level) {
      FlameNode shown = nodes[n].shown;
      shown.parent = n == 0 ? 0 : place[shown.parent];
      place[n] = static_cast<std::uint32_t>(flame.size());
      flame.push_back(shown);
      std::vector<std::uint32_t> children;
      for (const auto& [key, child] : nodes[n].children) children.push_back(child);
      std::ranges::stable_sort(children, std::ranges::greater{}, [&](std::uint32_t c) { return nodes[c].shown.bytes; });
      double begin = nodes[n].shown.begin;
      for (const std::uint32_t c : children) {
        nodes[c].shown.begin = begin;
        begin += static_cast<double>(nodes[c].shown.bytes) / total;
        nodes[c].shown.end = begin;
        below.push_back(c);
      }
    }
    level = std::move(below);
  }
  return flame;
}

}  // namespace

std::optional<std::vector<StackWeight>> weigh_allocations(const Document& document, std::span<const std::uint32_t> ids,
                                                          const Progress& progress) {
  Scales scales(document);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % (1U << 16U) == 0 && progress.cancelled()) return std::nullopt;
    scales.add(ids[i]);
  }
  return std::move(scales).weights();
}

std::optional<std::vector<StackWeight>> weigh_stacks(const Document& document, const WeightQuery& query,
                                                     const Progress& progress) {
  Scales scales(document);
  if (query.weighing != Weighing::allocated) {
    std::uint32_t events = query.end_event;
    const HeapSeries* const series = document.series(query.heap);
    if (query.weighing == Weighing::peak && series != nullptr && query.end_event > query.first_event)
      events = document.highest(*series, Metric::live, query.first_event, query.end_event) + 1;
    for (const std::uint32_t id : held_at(document, query.heap, events))
      if (document.requested(id) >= events) scales.add(id);
  } else {
    const std::uint32_t begin = document.allocations_before(query.first_event);
    const std::uint32_t end = document.allocations_before(query.end_event);
    for (std::uint32_t id = begin; id < end; ++id) {
      if (id % (1U << 16U) == 0) {
        if (progress.cancelled()) return std::nullopt;
        progress.set(static_cast<double>(id - begin) / (end - begin));
      }
      if (document.heap_of(document.origin_of(id)) == query.heap) scales.add(id);
    }
  }
  return std::move(scales).weights();
}

std::vector<FlameNode> flame_graph(const Tables& tables, const std::vector<StackWeight>& weights,
                                   const std::vector<bool>& are_nodes) {
  // Stacks are a tree already, but equal frames of one caller can be several of its nodes: these become one.
  const auto is_node = [&](StackId stack) {
    return are_nodes.empty() || (index(stack) < are_nodes.size() && are_nodes[index(stack)]);
  };
  const auto key_of = [&](FrameId frame) {
    constexpr std::uint64_t of_module = std::uint64_t{1} << 32U;
    const StringId module = are_nodes.empty() ? StringId::none : tables[frame].instance;
    return module == StringId::none ? std::uint64_t{index(frame)} : of_module | index(module);
  };
  std::vector<Node> nodes(1);
  std::vector<std::uint32_t> node_of(tables.stacks.size(), never);
  node_of[0] = 0;
  std::vector<StackId> path;
  for (const StackWeight& weight : weights) {
    path.clear();
    StackId at = weight.stack;
    for (; node_of[index(at)] == never; at = tables[at].caller) path.push_back(at);
    std::uint32_t node = node_of[index(at)];
    for (auto stack = path.rbegin(); stack != path.rend(); ++stack) {
      if (!is_node(*stack)) {
        node_of[index(*stack)] = node;
        continue;
      }
      const FrameId frame = tables[*stack].frame;
      const auto [child, is_new] =
          nodes[node].children.try_emplace(key_of(frame), static_cast<std::uint32_t>(nodes.size()));
      const std::uint32_t next = child->second;
      if (is_new) {
        Node made;
        made.shown = {.frame = frame, .stack = *stack, .depth = nodes[node].shown.depth + 1, .parent = node};
        nodes.push_back(std::move(made));
      }
      node = next;
      node_of[index(*stack)] = node;
    }
    for (;; node = nodes[node].shown.parent) {
      nodes[node].shown.bytes += weight.bytes;
      nodes[node].shown.count += weight.count;
      if (node == 0) break;
    }
  }

  return lay_out(std::move(nodes));
}

}  // namespace memreel::viewer
