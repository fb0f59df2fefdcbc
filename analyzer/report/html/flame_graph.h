// SPDX-License-Identifier: Apache-2.0
// Who holds memory at an instant, as an HTML flame graph: callers above, width is bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

struct FlameNode {
  FrameId frame = FrameId::none;
  std::uint32_t parent = 0;
  std::uint32_t depth = 0;  // 0 for the root
  Bytes begin, size;        // its position in its row
};

/// The root is everything live after the first `events` events in `heap`; children are ordered by size. Parents precede
/// their children. At most `most_nodes` nodes, the widest ones, none deeper than 64.
std::vector<FlameNode> flame_tree(const Trace& trace, std::span<const Lifetime> lives, HeapId heap,
                                  std::uint64_t events, std::size_t most_nodes = 700);

/// At most 1300 bytes per node, however long the names of frames.
std::string flame_graph(const Tables& tables, const std::vector<FlameNode>& tree);

}  // namespace memreel
