// The flame graph of stack weights, from callers to callees or the other way.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/tables.h"
#include "viewer/model/stack_weights.h"

namespace memreel::viewer {

struct FlameNode {
  FrameId frame = FrameId::none;
  StackId stack = StackId::none;  // from the root to here, or all of it if bottom-up; one of the merged stacks
  std::uint32_t depth = 0;        // 0: the root
  double begin = 0, end = 0;      // share of the width
  std::uint64_t bytes = 0, count = 0;
  std::uint32_t parent = 0;
};

struct FlameShape {
  std::vector<bool> are_nodes;  // by StackId: whether its frame is a node, else left out. Empty: all are
  bool by_module = false;       // calls of one module are one node, regardless of line
  bool bottom_up = false;       // allocating frames are the outermost nodes, their callers are inside
};

/// Nodes by depth, then from left to right; the heaviest child is the leftmost. The first is the root. Bottom-up graphs
/// have at most 64 callers.
std::vector<FlameNode> flame_graph(const Tables& tables, const std::vector<StackWeight>& weights,
                                   const FlameShape& shape = {});

/// By StackId: frames that do more than pass a call on (stack_lines.h), and those of stacks that have no other.
std::vector<bool> frames_without_wrappers(const Tables& tables);

}  // namespace memreel::viewer
