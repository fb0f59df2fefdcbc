// SPDX-License-Identifier: Apache-2.0
// Who holds the memory of an instant, as trees: by category, layer, line of code and stack; and by caller.
#pragma once

#include <set>

#include "analyzer/analysis/category/category.h"
#include "formats/model/tables.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"
#include "viewer/model/flame.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer::terminal {

enum class HolderOrder : std::uint8_t { bytes, count, name };

struct Holder {
  std::string label;
  std::string path;  // identifies it in the trees of other instants
  std::optional<Category> category;
  StackId stack = StackId::none;  // its own, or that of its largest allocation
  bool is_stack = false;          // a single stack, with nothing below
  Bytes bytes{}, largest{};
  std::uint64_t count = 0;
  std::vector<std::uint32_t> parts;  // nodes below
};

struct HolderTree {
  std::vector<Holder> nodes;  // the first is the root: everything

  const Holder& root() const { return nodes.front(); }
};

/// The blocks that are live in `heap`, and in one node those that are awaiting free. Categories and layers are left out
/// where they are not known; a line with a single stack stands for it. `known`, `sieve`: may be null.
HolderTree holders_at(const Document& document, const HeapAt& heap, const Classification* known, const Sieve* sieve);

/// What was allocated in `heap` by the events `first` .. `end` - 1.
struct HolderRange {
  HeapId heap = HeapId::none;
  std::uint32_t first = 0, end = 0;
  bool only_kept = false;  // live after them

  friend bool operator==(const HolderRange&, const HolderRange&) = default;
};

/// The same for what was allocated in a range. None when cancelled.
std::optional<HolderTree> holders_in(const Document& document, const HolderRange& range, const Classification* known,
                                     const Sieve* sieve, const Progress& progress);

/// A line on screen.
struct HolderRow {
  std::uint32_t node = 0;
  int depth = 0;
  bool is_open = false;
};

/// Which nodes are shown, and in which order.
struct HolderView {
  std::set<std::string> open;  // paths
  std::string focus;           // path of the node whose parts are shown; empty: the root
  HolderOrder order = HolderOrder::bytes;
};

std::vector<HolderRow> rows_of(const HolderTree& tree, const HolderView& view);

/// The node with this path, if there is one.
std::optional<std::uint32_t> node_at(const HolderTree& tree, const std::string& path);

/// Opens the way to the line that holds most: always the largest node.
void open_largest(const HolderTree& tree, HolderView& view);

// The flame graph as a tree: who called whom, from the program's beginning to the allocations.

/// Frames that only pass a call on are left out, and a frame with one callee that holds all of it stands with it on one
/// line.
HolderTree flame_tree(const Tables& tables, const std::vector<StackWeight>& weights);

}  // namespace memreel::viewer::terminal
