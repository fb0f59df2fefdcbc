// SPDX-License-Identifier: Apache-2.0
// The memory attributed to each call stack, and the flame graph made of it.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "analyzer/analysis/category/category.h"
#include "formats/model/tables.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {

/// The quantity to weigh.
enum class Weighing : std::uint8_t {
  live_at_cursor,  // bytes live at an instant
  allocated,       // bytes allocated in a range, however short they lived
  peak,            // bytes live at the peak of a range
  kept,            // bytes allocated in a range and live at its end
  leaked,          // bytes kept and judged to be a leak: weigh_allocations()
  folded,          // bytes allocated in a time range, from a flight recorder's sums (stacked_series.h)
};

struct StackWeight {
  StackId stack = StackId::none;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t largest = 0;      // bytes of the largest allocation; 0 if unknown
  std::uint32_t example = never;  // that allocation

  friend bool operator==(const StackWeight&, const StackWeight&) = default;
};

struct WeightQuery {
  Weighing weighing = Weighing::live_at_cursor;
  HeapId heap = HeapId::none;
  std::uint32_t first_event = 0, end_event = 0;  // of the range; live: after end_event events
  Nanoseconds begin{}, end{};                    // of the range, only for `folded`
  std::uint32_t version = 0;
  std::shared_ptr<const Sieve> sieve;  // null: all

  friend bool operator==(const WeightQuery&, const WeightQuery&) = default;
};

/// Stacks with a weight, heaviest first. None when cancelled.
std::optional<std::vector<StackWeight>> weigh_stacks(const Document& document, const WeightQuery& query,
                                                     const Progress& progress);

/// The same for some allocations, each counted once.
std::optional<std::vector<StackWeight>> weigh_allocations(const Document& document, std::span<const std::uint32_t> ids,
                                                          const Progress& progress);

struct FlameNode {
  FrameId frame = FrameId::none;
  StackId stack = StackId::none;  // from the root to here, or all of it if bottom-up; one of the merged stacks
  std::uint32_t depth = 0;        // 0: the root
  double begin = 0, end = 0;      // share of the width
  std::uint64_t bytes = 0, count = 0;
  std::uint32_t parent = 0;
  std::optional<Category> category;  // of at least half of its bytes; none: mixed, or not asked for
};

struct FlameShape {
  std::vector<bool> are_nodes;  // by StackId: whether its frame is a node, else left out. Empty: all are
  bool by_module = false;       // calls of one module are one node, regardless of line
  /// Of what a stack holds, if known. May be empty.
  std::function<std::optional<Category>(const StackWeight&)> category_of;
  bool bottom_up = false;  // allocating frames are the outermost nodes, their callers are inside
};

/// Nodes by depth, then from left to right; the heaviest child is the leftmost. The first is the root. Bottom-up graphs
/// have at most 64 callers.
std::vector<FlameNode> flame_graph(const Tables& tables, const std::vector<StackWeight>& weights,
                                   const FlameShape& shape = {});

/// By StackId: frames that do more than pass a call on (labels.h), and those of stacks that have no other.
std::vector<bool> frames_without_wrappers(const Tables& tables);

}  // namespace memreel::viewer
