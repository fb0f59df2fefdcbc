// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/holders.h"

#include <algorithm>
#include <map>

#include "analyzer/describe/own_frame.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"

namespace memreel::viewer::terminal {
namespace {

class TreeBuilder {
 public:
  TreeBuilder(const Document& document, const Classification* known) : document_(document), known_(known) {
    tree_.nodes.push_back({.label = "everything", .path = {}, .category = {}, .parts = {}});
  }

  void add(const HeldBlock& block) {
    const StackId stack = document_.stack_of(block.allocation);
    const Key key{stack, known_ != nullptr ? known_->call(block.allocation) : std::uint16_t{0},
                  block.pending       ? awaiting
                  : known_ != nullptr ? static_cast<int>(known_->category(block.allocation))
                                      : unclassified};
    const auto [found, is_new] = leaves_.try_emplace(key, std::vector<std::uint32_t>());
    if (is_new) found->second = way_to(key);
    for (const std::uint32_t node : found->second) {
      Holder& holder = tree_.nodes[node];
      holder.bytes += block.size;
      ++holder.count;
      if (block.size < holder.largest) continue;
      holder.largest = block.size;
      holder.stack = stack;
    }
  }

  HolderTree take() && {
    // A line with one stack stands for it.
    for (Holder& holder : tree_.nodes) {
      if (holder.parts.size() != 1 || !tree_.nodes[holder.parts.front()].is_stack) continue;
      holder.is_stack = true;
      holder.parts.clear();
    }
    return std::move(tree_);
  }

 private:
  static constexpr int awaiting = -1, unclassified = -2;

  struct Key {
    StackId stack = StackId::none;
    std::uint16_t call = 0;
    int category = unclassified;
    auto operator<=>(const Key&) const = default;
  };

  /// The nodes from the root to the stack.
  std::vector<std::uint32_t> way_to(const Key& key) {
    std::vector<std::uint32_t> way{0};
    const Tables& tables = *document_.tables;
    std::optional<Category> category;
    if (key.category == awaiting) {
      way.push_back(part(way.back(), "awaiting free", category));
    } else if (known_ != nullptr && known_->knows_any) {
      category = static_cast<Category>(key.category);
      way.push_back(part(way.back(), std::string(words_of(*category)), category));
    }
    if (known_ != nullptr)
      if (const std::string layer = known_->layer(tables, key.stack, key.call); !layer.empty())
        way.push_back(part(way.back(), layer, category));
    way.push_back(part(way.back(), site_label(tables, key.stack), category));
    way.push_back(part(way.back(), stack_label(tables, key.stack), category, key.stack));
    tree_.nodes[way.back()].is_stack = true;
    return way;
  }

  /// `stack`: of a node that is a stack; stacks may have the same label.
  std::uint32_t part(std::uint32_t parent, const std::string& label, std::optional<Category> category,
                     StackId stack = StackId::none) {
    const auto [found, is_new] = parts_.try_emplace(std::tuple{parent, label, stack}, 0);
    if (is_new) {
      found->second = static_cast<std::uint32_t>(tree_.nodes.size());
      std::string path = tree_.nodes[parent].path + '\n' + label;
      if (stack != StackId::none) path += '\n' + std::to_string(index(stack));
      tree_.nodes.push_back({.label = label, .path = std::move(path), .category = category, .parts = {}});
      tree_.nodes[parent].parts.push_back(found->second);
    }
    return found->second;
  }

  const Document& document_;
  const Classification* known_;
  HolderTree tree_;
  std::map<Key, std::vector<std::uint32_t>> leaves_;
  std::map<std::tuple<std::uint32_t, std::string, StackId>, std::uint32_t> parts_;
};

std::vector<std::uint32_t> ordered(const HolderTree& tree, const Holder& holder, HolderOrder order) {
  std::vector<std::uint32_t> parts = holder.parts;
  std::ranges::sort(parts, [&](std::uint32_t a, std::uint32_t b) {
    const Holder &x = tree.nodes[a], &y = tree.nodes[b];
    if (order == HolderOrder::name && x.label != y.label) return x.label < y.label;
    if (order == HolderOrder::count && x.count != y.count) return x.count > y.count;
    if (x.bytes != y.bytes) return x.bytes > y.bytes;
    return std::tie(x.label, x.path) < std::tie(y.label, y.path);
  });
  return parts;
}

void add_rows(const HolderTree& tree, const HolderView& view, std::uint32_t node, int depth,
              std::vector<HolderRow>& rows) {
  for (const std::uint32_t part : ordered(tree, tree.nodes[node], view.order)) {
    const Holder& holder = tree.nodes[part];
    const bool is_open = !holder.parts.empty() && view.open.contains(holder.path);
    rows.push_back({part, depth, is_open});
    if (is_open) add_rows(tree, view, part, depth + 1, rows);
  }
}

}  // namespace

HolderTree holders_at(const Document& document, const HeapAt& heap, const Classification* known, const Sieve* sieve) {
  TreeBuilder builder(document, known);
  for (const HeldBlock& block : heap.blocks)
    if (sieve == nullptr || sieve->passes(block.allocation)) builder.add(block);
  return std::move(builder).take();
}

std::optional<HolderTree> holders_in(const Document& document, const HolderRange& range, const Classification* known,
                                     const Sieve* sieve, const Progress& progress) {
  TreeBuilder builder(document, known);
  const std::uint32_t begin = document.allocations_before(range.first), end = document.allocations_before(range.end);
  for (std::uint32_t id = begin; id < end; ++id) {
    if (id % (1U << 16U) == 0 && progress.cancelled()) return std::nullopt;
    if (document.heap_of(document.origin_of(id)) != range.heap) continue;
    if (range.only_kept && document.requested(id) < range.end) continue;
    if (sieve != nullptr && !sieve->passes(id)) continue;
    builder.add({.allocation = id, .address = {}, .size = document.size_of(id), .taken = {}});
  }
  return std::move(builder).take();
}

std::vector<HolderRow> rows_of(const HolderTree& tree, const HolderView& view) {
  std::vector<HolderRow> rows;
  add_rows(tree, view, node_at(tree, view.focus).value_or(0), 0, rows);
  return rows;
}

std::optional<std::uint32_t> node_at(const HolderTree& tree, const std::string& path) {
  const auto found = std::ranges::find(tree.nodes, path, &Holder::path);
  if (found == tree.nodes.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - tree.nodes.begin());
}

void open_largest(const HolderTree& tree, HolderView& view) {
  const Holder* at = &tree.root();
  while (!at->parts.empty()) {
    at = &tree.nodes[ordered(tree, *at, HolderOrder::bytes).front()];
    if (!at->parts.empty()) view.open.insert(at->path);
  }
}

namespace {

/// "forward (model.py:10)"
std::string label_of(const Tables& tables, FrameId frame) {
  if (frame == FrameId::none) return "(no stack)";
  const FrameText text = frame_text(tables, frame);
  std::string label = frame_name(tables, frame);
  if (text.line != 0) label += " (" + std::string(base_name(text.short_file)) + ":" + std::to_string(text.line) + ")";
  return label;
}

class FlameTreeBuilder {
 public:
  FlameTreeBuilder(const Tables& tables, const std::vector<FlameNode>& nodes)
      : tables_(tables), nodes_(nodes), parts_(nodes.size()) {
    for (std::uint32_t n = 1; n < nodes.size(); ++n) parts_[nodes[n].parent].push_back(n);
  }

  HolderTree take() && {
    tree_.nodes.push_back({.label = "everything", .path = {}, .category = {}, .parts = {}});
    if (nodes_.empty()) return std::move(tree_);
    fill(0, nodes_.front());
    std::vector<Pending> pending;
    for (const std::uint32_t part : parts_.front()) pending.push_back({.parent = 0, .first = part, .depth = 0});
    while (!pending.empty()) {
      const Pending next = pending.back();
      pending.pop_back();
      add(next, pending);
    }
    return std::move(tree_);
  }

 private:
  struct Pending {
    std::uint32_t parent = 0;  // in the tree
    std::uint32_t first = 0;   // in the graph
    std::uint32_t depth = 0;
  };

  void fill(std::uint32_t at, const FlameNode& node) {
    tree_.nodes[at].bytes = Bytes{node.bytes};
    tree_.nodes[at].count = node.count;
    tree_.nodes[at].stack = node.stack;
  }

  /// A chain of single callees becomes one node: of its labels the first and the last are shown.
  void add(const Pending& next, std::vector<Pending>& pending) {
    constexpr std::uint32_t deepest = 256;  // paths contain those above
    std::uint32_t last = next.first;
    std::size_t between = 0;
    while (parts_[last].size() == 1 && nodes_[parts_[last].front()].count == nodes_[last].count) {
      last = parts_[last].front();
      ++between;
    }
    std::string label = label_of(tables_, nodes_[next.first].frame);
    std::string path =
        tree_.nodes[next.parent].path + '\n' + std::to_string(index(nodes_[next.first].frame)) + ' ' + label;
    if (between > 1) label += " > \u2026";
    if (between > 0) label += " > " + label_of(tables_, nodes_[last].frame);
    const auto at = static_cast<std::uint32_t>(tree_.nodes.size());
    tree_.nodes.push_back({.label = std::move(label), .path = std::move(path), .category = {}, .parts = {}});
    tree_.nodes[next.parent].parts.push_back(at);
    fill(at, nodes_[last]);
    if (next.depth >= deepest) return;
    for (const std::uint32_t part : parts_[last])
      pending.push_back({.parent = at, .first = part, .depth = next.depth + 1});
  }

  const Tables& tables_;
  const std::vector<FlameNode>& nodes_;
  std::vector<std::vector<std::uint32_t>> parts_;
  HolderTree tree_;
};

}  // namespace

HolderTree flame_tree(const Tables& tables, const std::vector<StackWeight>& weights) {
  const std::vector<FlameNode> nodes = flame_graph(tables, weights, {.are_nodes = frames_without_wrappers(tables)});
  return FlameTreeBuilder(tables, nodes).take();
}

}  // namespace memreel::viewer::terminal
