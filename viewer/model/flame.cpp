// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/flame.h"

#include <algorithm>
#include <map>

#include "analyzer/analysis/category/frame_rules.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/stacked_series.h"

namespace memreel::viewer {
namespace {

/// Sums weights by stack.
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
  if (query.weighing == Weighing::folded)
    return weigh_folded(document, query.heap, query.begin, query.end, query.sieve.get(), progress);
  Scales scales(document);
  const auto passes = [&](std::uint32_t id) { return !query.sieve || query.sieve->passes(id); };
  if (query.weighing == Weighing::live_at_cursor || query.weighing == Weighing::peak) {
    std::uint32_t events = query.end_event;
    const HeapSeries* const series = document.series(query.heap);
    if (query.weighing == Weighing::peak && series != nullptr && query.end_event > query.first_event)
      events = document.highest(*series, Metric::live, query.first_event, query.end_event) + 1;
    for (const std::uint32_t id : held_at(document, query.heap, events))
      if (document.requested(id) >= events && passes(id)) scales.add(id);
  } else {
    const std::uint32_t begin = document.allocations_before(query.first_event);
    const std::uint32_t end = document.allocations_before(query.end_event);
    for (std::uint32_t id = begin; id < end; ++id) {
      if (id % (1U << 16U) == 0) {
        if (progress.cancelled()) return std::nullopt;
        progress.set(static_cast<double>(id - begin) / (end - begin));
      }
      if (document.heap_of(document.origin_of(id)) != query.heap || !passes(id)) continue;
      if (query.weighing == Weighing::allocated || document.requested(id) >= query.end_event) scales.add(id);
    }
  }
  return std::move(scales).weights();
}

namespace {

/// A node of a flame graph while weights are summed.
struct Node {
  FlameNode shown;
  std::map<std::uint64_t, std::uint32_t> children;
  std::vector<std::uint64_t> by_category;  // bytes; empty: none is known

  std::optional<Category> category() const {
    const auto most = std::ranges::max_element(by_category);
    if (most == by_category.end() || *most < shown.bytes - *most) return std::nullopt;
    return static_cast<Category>(most - by_category.begin());
  }
};

/// Ordered by depth, with the heaviest child leftmost.
std::vector<FlameNode> lay_out(std::vector<Node> nodes) {
  std::vector<FlameNode> flame;
  const auto total = static_cast<double>(std::max<std::uint64_t>(nodes[0].shown.bytes, 1));
  std::vector<std::uint32_t> level{0};  // nodes of one depth, as indices into `nodes`
  std::vector<std::uint32_t> place(nodes.size());
  nodes[0].shown.end = 1;
  while (!level.empty()) {
    std::vector<std::uint32_t> below;
    for (const std::uint32_t n : level) {
      FlameNode shown = nodes[n].shown;
      shown.parent = n == 0 ? 0 : place[shown.parent];
      shown.category = nodes[n].category();
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

/// Sums weights along the paths of frames that the shape derives from the stacks.
class Tree {
 public:
  Tree(const Tables& tables, const FlameShape& shape) : tables_(tables), shape_(shape), nodes_(1) {
    node_of_.assign(tables.stacks.size(), never);
    node_of_[0] = 0;
  }

  void add(const StackWeight& weight) {
    const std::optional<Category> category = shape_.category_of ? shape_.category_of(weight) : std::nullopt;
    for (std::uint32_t node = shape_.bottom_up ? callers_of(weight.stack) : path_to(weight.stack);;
         node = nodes_[node].shown.parent) {
      nodes_[node].shown.bytes += weight.bytes;
      nodes_[node].shown.count += weight.count;
      if (category) {
        nodes_[node].by_category.resize(category_count);
        nodes_[node].by_category[static_cast<std::size_t>(*category)] += weight.bytes;
      }
      if (node == 0) break;
    }
  }

  std::vector<Node> take() && { return std::move(nodes_); }

 private:
  static constexpr std::uint32_t deepest = 64;  // bottom-up: there would be as many nodes as stacks times their depth

  bool is_node(StackId stack) const {
    return shape_.are_nodes.empty() || (index(stack) < shape_.are_nodes.size() && shape_.are_nodes[index(stack)]);
  }

  /// The node of `stack`'s frame below `above`.
  std::uint32_t below(std::uint32_t above, StackId stack, StackId shown) {
    constexpr std::uint64_t of_module = std::uint64_t{1} << 32U;
    const FrameId frame = tables_[stack].frame;
    const StringId module = shape_.by_module ? tables_[frame].instance : StringId::none;
    const std::uint64_t key = module == StringId::none ? std::uint64_t{index(frame)} : of_module | index(module);
    const auto [child, is_new] = nodes_[above].children.try_emplace(key, static_cast<std::uint32_t>(nodes_.size()));
    const std::uint32_t node = child->second;
    if (is_new) {
      Node made;
      made.shown = {.frame = frame, .stack = shown, .depth = nodes_[above].shown.depth + 1, .parent = above};
      nodes_.push_back(std::move(made));
    }
    return node;
  }

  /// Stacks already form a tree, but a caller can have several nodes for equal frames: merge these.
  std::uint32_t path_to(StackId stack) {
    std::vector<StackId> path;
    for (; node_of_[index(stack)] == never; stack = tables_[stack].caller) path.push_back(stack);
    std::uint32_t node = node_of_[index(stack)];
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      if (is_node(*at)) node = below(node, *at, *at);
      node_of_[index(*at)] = node;
    }
    return node;
  }

  std::uint32_t callers_of(StackId stack) {
    std::uint32_t node = 0;
    for (StackId at = stack; at != StackId::none && nodes_[node].shown.depth < deepest; at = tables_[at].caller)
      if (is_node(at)) node = below(node, at, stack);
    return node;
  }

  const Tables& tables_;
  const FlameShape& shape_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> node_of_;
};

}  // namespace

std::vector<FlameNode> flame_graph(const Tables& tables, const std::vector<StackWeight>& weights,
                                   const FlameShape& shape) {
  Tree tree(tables, shape);
  for (const StackWeight& weight : weights) tree.add(weight);
  return lay_out(std::move(tree).take());
}

std::vector<bool> frames_without_wrappers(const Tables& tables) {
  std::vector<bool> frames(tables.frames.size());
  for (std::uint32_t f = 1; f < frames.size(); ++f) frames[f] = !passes_on(frame_text(tables, FrameId{f}));
  std::vector<bool> shown(tables.stacks.size()), has_any(tables.stacks.size());
  // Callers come before their callees.
  for (std::uint32_t s = 1; s < shown.size(); ++s) {
    const bool caller_has_any = has_any[index(tables.stacks[s].caller)];
    shown[s] = frames[index(tables.stacks[s].frame)] || !caller_has_any;
    has_any[s] = true;
  }
  return shown;
}

}  // namespace memreel::viewer
