// SPDX-License-Identifier: Apache-2.0
// An HTML report: its page, which needs no network, and its charts, SVGs that stretch to the page's width.
#pragma once

#include <span>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/timeline.h"
#include "analyzer/predict/sizes.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"

namespace memreel {

// The common part of charts over time: an SVG that stretches to the width of the page, its axes, and the values shown
// at the pointer.

/// A value for each column.
struct PlotSeries {
  std::string_view name;
  std::vector<Bytes> values;
};

struct Plot {
  std::string legend;  // HTML
  std::string label;   // for screen readers
  std::string shapes;  // SVG, in a box as wide as there are columns, 1000 high
  Bytes highest;       // at the top
  std::size_t columns = 0;
  double seconds = 0;  // 0: columns are of events
  std::vector<PlotSeries> series;
};

/// Formatted for SVG, with five digits.
std::string svg_number(double value);

std::string plot_html(const Plot& plot);

/// The path of the area under a line that steps from column to column.
std::string steps_path(std::span<const Bytes> values, Bytes highest);

/// An SVG that stretches to the width of the page, with axes. Size: below 200 bytes per column.
std::string memory_chart(const MemoryTimeline& timeline);

/// Live memory stacked by category. `timeline`: of the same heap and columns. Below 80 bytes per column.
std::string category_chart(const MemoryTimeline& timeline, const CategoryTimeline& categories);

/// An SVG that stretches to the width of the page, from 0 to the largest value and to the most bytes. A limit more than
/// three times as high is mentioned instead of drawn: the curve would be flat. Empty without points.
std::string growth_chart(const GrowthChart& chart);

/// `title` is text; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

// Who holds memory at an instant, as an HTML flame graph: callers above, width is bytes.

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
