// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/history/device_tree.h"

#include <algorithm>
#include <map>

#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// The rows of a device, made from the leaves to the root and printed the other way.
class Tree {
 public:
  explicit Tree(const DeviceMemory& device) : peak_(device.peak_held) {
    std::map<HeapId, HeapPart> parts;
    for (const HeapPart& part : peak_.parts) parts[part.heap] = part;
    const auto root = std::ranges::find(device.heaps, device.driver, &DeviceHeap::heap);
    const bool has_root = device.driver != HeapId::none && root != device.heaps.end();
    for (const DeviceHeap& heap : device.heaps) {
      const HeapPart& part = parts[heap.heap];
      nodes_.push_back({.row = {.heap = heap.heap,
                                .peak = heap.peak_whole,
                                .whole = part.whole,
                                .from_device = part.held,
                                .live = part.live}});
      of_heap_[heap.heap] = nodes_.size() - 1;
    }
    std::optional<std::size_t> mapped;
    for (const DriverPart& part : device.driver_parts) {
      nodes_.push_back({.row = {.node = TreeNode::part,
                                .heap = part.heap,
                                .pool = part.pool,
                                .peak = part.peak,
                                .whole = part.held,
                                .from_device = part.held,
                                .live = part.held}});
      if (part.is_mapped) mapped = nodes_.size() - 1;
      if (!has_root || part.heap != root->heap) continue;
      Node& driver = nodes_[of_heap_.at(root->heap)];
      driver.row.from_device -= std::min(driver.row.from_device, part.held);
      driver.row.live -= std::min(driver.row.live, part.held);
    }
    for (const DeviceHeap& heap : device.heaps) {
      if (heap.heap == device.driver) continue;
      const std::size_t node = of_heap_.at(heap.heap);
      if (!has_root || heap.parent != device.driver || !heap.is_mapped) {
        if (const auto parent = of_heap_.find(heap.parent); parent != of_heap_.end())
          nodes_[parent->second].children.push_back(node);
        else
          top_.push_back(node);
        continue;
      }
      if (!mapped) {
        nodes_.push_back({.row = {.node = TreeNode::part, .heap = device.driver}});
        mapped = nodes_.size() - 1;
      }
      Node& around = nodes_[*mapped];
      around.children.push_back(node);
      around.row.whole += nodes_[node].row.whole;
      around.row.peak = std::max({around.row.peak, around.row.whole, nodes_[node].row.peak});
    }
    if (has_root) top_.push_back(of_heap_.at(device.driver));
    for (std::size_t node = 0; node < nodes_.size(); ++node)
      if (nodes_[node].row.node == TreeNode::part) {
        const auto parent = of_heap_.find(nodes_[node].row.heap);
        (parent != of_heap_.end() ? nodes_[parent->second].children : top_).push_back(node);
      }
  }

  std::vector<DeviceTreeRow> rows() {
    add(top_, std::nullopt, 0, peak_.held);
    return std::move(rows_);
  }

 private:
  struct Node {
    DeviceTreeRow row;
    std::vector<std::size_t> children;
  };

  void add(std::vector<std::size_t> nodes, std::optional<std::size_t> parent, std::uint32_t depth, Bytes around) {
    std::ranges::stable_sort(nodes, std::ranges::greater{}, [&](std::size_t node) { return nodes_[node].row.peak; });
    for (const std::size_t node : nodes) {
      DeviceTreeRow row = nodes_[node].row;
      Bytes inside;
      for (const std::size_t child : nodes_[node].children) inside += nodes_[child].row.whole;
      row.parent = parent;
      row.depth = depth;
      row.around = around;
      row.itself = row.whole - std::min(row.whole, inside);
      rows_.push_back(row);
      add(nodes_[node].children, rows_.size() - 1, depth + 1, row.whole);
    }
  }

  const DeviceInstant& peak_;
  std::vector<Node> nodes_;
  std::map<HeapId, std::size_t> of_heap_;
  std::vector<std::size_t> top_;
  std::vector<DeviceTreeRow> rows_;
};

}  // namespace

std::vector<DeviceTreeRow> tree_rows(const DeviceMemory& device) {
  std::vector<DeviceTreeRow> rows = Tree(device).rows();
  if (!device.samples) return rows;
  for (const auto& [node, bytes] :
       {std::pair(TreeNode::unused, device.samples->pools), std::pair(TreeNode::graphs, device.samples->graphs),
        std::pair(TreeNode::nobody, device.samples->of_nobody)})
    if (bytes > 0_B) rows.push_back({.node = node, .peak = bytes, .whole = bytes, .itself = bytes});
  return rows;
}

std::string name_of(const Tables& tables, const DeviceTreeRow& row) {
  switch (row.node) {
    case TreeNode::heap:
      return tables[tables[row.heap].name];
    case TreeNode::part: {
      const std::string& name = tables[tables[row.pool].name];
      if (row.pool == PoolId::default_pool || name == "physical") return "cuda.mapped";
      const std::uint64_t key = tables[row.pool].key_low;
      return "cuda." + name + (key != 0 ? " " + hexadecimal(key) : "");
    }
    case TreeNode::unused:
      return "pools of cudaMallocAsync, unused";
    case TreeNode::graphs:
      return "graphs";
    case TreeNode::nobody:
      return "contexts, code, other processes";
  }
  return "";
}

}  // namespace memreel
