// The flame graph of what stacks stand for, from callers to callees or the other way.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/tables.h"
#include "viewer/model/stack_weights.h"

namespace memreel::viewer {

struct FlameNode {
  FrameId frame = FrameId::none;
  StackId stack = StackId::none;  // from the root to here; bottom-up: all of it. Of one of those that were merged
  std::uint32_t depth = 0;        // 0: all together
  double begin = 0, end = 0;      // share of the width
  std::uint64_t bytes = 0, count = 0;
  std::uint32_t parent = 0;
};

struct FlameShape {
  std::vector<bool> are_nodes;  // by StackId: whether its frame is a node; else it is left out. Empty: all are
  bool by_module = false;       // calls of one module are one node, whatever line it was at
  bool bottom_up = false;       // the frames that allocate are the outermost nodes, their callers are inside
};

/// Nodes by depth, then from left to right; the heaviest child is the leftmost. The first is the root. Bottom-up, no
/// deeper than 64 callers.
std::vector<FlameNode> flame_graph(const Tables& tables, const std::vector<StackWeight>& weights,
                                   const FlameShape& shape = {});

/// By StackId: frames that do more than pass a call on (stack_lines.h), and those of stacks that have no other.
std::vector<bool> frames_without_wrappers(const Tables& tables);

}  // namespace memreel::viewer
