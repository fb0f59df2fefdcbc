// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/flame_tree.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "formats/model/paths.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"

namespace memreel::viewer::terminal {
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
