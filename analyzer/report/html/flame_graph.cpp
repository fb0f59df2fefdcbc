// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/html/flame_graph.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <queue>
#include <utility>

#include "analyzer/category/frame_rules.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/report/markup.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::size_t deepest = 64;
constexpr std::size_t most_text = 120;  // bytes of a frame's name
constexpr std::size_t most_label = 60;  // shown in place

/// Outermost first and at most `deepest`: without what only passes calls on, and without what a notebook or a launcher
/// calls the user's code through.
std::vector<FrameId> shown_frames(const Tables& tables, StackId stack) {
  std::vector<FrameId> frames;
  for (; stack != StackId::none; stack = tables[stack].caller)
    if (!passes_on(frame_text(tables, tables[stack].frame))) frames.push_back(tables[stack].frame);
  std::ranges::reverse(frames);
  const auto own = std::ranges::find_if(frames, [&](FrameId frame) { return tables[frame].owner == CodeOwner::user; });
  if (own != frames.end()) frames.erase(frames.begin(), own);
  if (frames.size() > deepest) frames.resize(deepest);
  return frames;
}

/// The whole tree, without positions.
class Builder {
 public:
  void add(const Tables& tables, StackId stack, Bytes bytes) {
    std::uint32_t node = 0;
    nodes_[0].size += bytes;
    for (const FrameId frame : shown_frames(tables, stack)) {
      node = child(node, frame);
      nodes_[node].size += bytes;
    }
  }

  /// The widest nodes, laid out.
  std::vector<FlameNode> widest(std::size_t most) const {
    std::vector<std::vector<std::uint32_t>> children(nodes_.size());
    for (std::uint32_t n = 1; n < nodes_.size(); ++n) children[nodes_[n].parent].push_back(n);
    const auto narrower = [&](std::pair<std::uint32_t, std::uint32_t> a, std::pair<std::uint32_t, std::uint32_t> b) {
      return std::pair(nodes_[a.first].size, b.first) < std::pair(nodes_[b.first].size, a.first);
    };
    // Pairs of a node here and its index in the result.
    std::priority_queue<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::pair<std::uint32_t, std::uint32_t>>,
                        decltype(narrower)>
        open(narrower);
    std::vector<FlameNode> result{nodes_[0]};
    open.emplace(0, 0);
    while (!open.empty()) {
      const auto [from, place] = open.top();
      open.pop();
      std::ranges::stable_sort(children[from], std::ranges::greater{}, [&](std::uint32_t n) { return nodes_[n].size; });
      Bytes at = result[place].begin;
      for (const std::uint32_t n : children[from]) {
        if (result.size() == most || nodes_[n].size * 1000 < nodes_[0].size) break;
        FlameNode node = nodes_[n];
        node.parent = place;
        node.begin = at;
        at += node.size;
        open.emplace(n, static_cast<std::uint32_t>(result.size()));
        result.push_back(node);
      }
    }
    return result;
  }

 private:
  std::uint32_t child(std::uint32_t parent, FrameId frame) {
    const auto [found, is_new] =
        by_frame_.try_emplace({parent, index(frame)}, static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({.frame = frame, .parent = parent, .depth = nodes_[parent].depth + 1});
    return found->second;
  }

  std::vector<FlameNode> nodes_{FlameNode{}};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> by_frame_;
};

std::string percent(Bytes part, Bytes whole) {
  std::array<char, 32> text{};
  const double share = whole == 0_B ? 0 : 100 * static_cast<double>(part.count) / static_cast<double>(whole.count);
  const int length = std::snprintf(text.data(), text.size(), "%.3f%%", share);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

std::vector<FlameNode> flame_tree(const Trace& trace, std::span<const Lifetime> lives, HeapId heap,
                                  std::uint64_t events, std::size_t most_nodes) {
  std::map<std::uint32_t, Bytes> by_stack;
  for (const Lifetime& life : lives)
    if (life.live_after(events) && trace.tables[trace.events.origin[life.begin]].heap == heap)
      by_stack[index(trace.events.stack[life.begin])] += trace.events.size[life.begin];
  Builder builder;
  for (const auto& [stack, bytes] : by_stack) builder.add(trace.tables, StackId{stack}, bytes);
  return builder.widest(most_nodes);
}

std::string flame_graph(const Tables& tables, const std::vector<FlameNode>& tree) {
  if (tree.empty() || tree.front().size == 0_B) return "<p class=quiet>Nothing was live.</p>\n";
  const Bytes all = tree.front().size;
  std::uint32_t depth = 0;
  for (const FlameNode& node : tree) depth = std::max(depth, node.depth);
  std::string html = "<div class=flame style=\"height:" + std::to_string((depth + 1) * 20) + "px\">\n";
  for (const FlameNode& node : tree) {
    const FrameText frame = frame_text(tables, node.frame);
    const std::string name = node.depth == 0 ? "all" : clipped(text_of(frame), most_text);
    const char* const kind = node.depth == 0 ? "all" : frame.owner != CodeOwner::user ? "library" : "own";
    html += "<div tabindex=0 class=" + std::string(kind) + " style=\"left:" + percent(node.begin, all) +
            ";width:" + percent(node.size, all) + ";top:" + std::to_string(node.depth * 20) + "px\" title=\"" +
            html_escaped(name) + "&#10;" + text_of(node.size) + ", " +
            text_of_share(static_cast<double>(node.size.count) / static_cast<double>(all.count)) + "\">" +
            html_escaped(clipped(name, most_label)) + "</div>\n";
  }
  return html + "</div>\n";
}

}  // namespace memreel
