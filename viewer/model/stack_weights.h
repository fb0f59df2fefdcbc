// How much memory each call stack stands for, and the flame graph of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

/// What is weighed.
enum class Weighing : std::uint8_t {
  live_at_cursor,  // bytes live at an instant
  allocated,       // bytes allocated in a range, however short they lived
  peak,            // bytes live when most were in a range
  leaked,          // bytes that are kept and were judged to be a leak: weigh_allocations()
};

struct StackWeight {
  StackId stack = StackId::none;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t largest = 0;      // bytes of the largest allocation
  std::uint32_t example = never;  // that allocation

  friend bool operator==(const StackWeight&, const StackWeight&) = default;
};

struct WeightQuery {
  Weighing weighing = Weighing::live_at_cursor;
  HeapId heap = HeapId::none;
  std::uint32_t first_event = 0, end_event = 0;  // of the range; live: after end_event events
  std::uint32_t version = 0;

  friend bool operator==(const WeightQuery&, const WeightQuery&) = default;
};

/// Stacks that have a weight, the heaviest first. None when cancelled.
std::optional<std::vector<StackWeight>> weigh_stacks(const Document& document, const WeightQuery& query,
                                                     const Progress& progress);

/// The same of some allocations, each counted once.
std::optional<std::vector<StackWeight>> weigh_allocations(const Document& document, std::span<const std::uint32_t> ids,
                                                          const Progress& progress);

/// A frame of a flame graph; its callers are above it.
struct FlameNode {
  FrameId frame = FrameId::none;
  StackId stack = StackId::none;  // from the root to here: of one of those that were merged into it
  std::uint32_t depth = 0;        // 0: all together
  double begin = 0, end = 0;      // share of the width
  std::uint64_t bytes = 0, count = 0;
  std::uint32_t parent = 0;
};

/// Nodes by depth, then from left to right; the heaviest child is the leftmost. The first is the root. `are_nodes`:
/// by StackId, whether its frame is a node; what its frame holds is its caller's where it is not. Empty: all are. Calls
/// of one module are one node then, whatever line it was at.
std::vector<FlameNode> flame_graph(const Tables& tables, const std::vector<StackWeight>& weights,
                                   const std::vector<bool>& are_nodes = {});

}  // namespace memreel::viewer
