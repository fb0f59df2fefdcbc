// SPDX-License-Identifier: Apache-2.0
// The heap at the cursor: segments by address, size or age, one lane for each pool and stream; blocks, gaps, rounding,
// pending frees. A click selects a block, a hole, or with Ctrl the segment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "viewer/model/heap_at.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/verdicts.h"
#include "viewer/panes/widgets.h"

namespace memreel::viewer {

class HeapPane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  /// The piece of a segment in one row.
  struct Piece {
    Area area;  // relative to the corner of the pane's content
    std::uint32_t segment = 0;
    float before = 0, total = 0;  // widths of the segment's earlier pieces, and of all of them
  };
  struct Title {
    float y = 0;
    std::string label;
  };
  /// The layout, until the heap or the pane changes.
  struct Layout {
    struct Key {
      HeapId heap = HeapId::none;
      std::uint32_t event = 0, version = 0;
      float width = 0, height = 0, scale = 0;
      bool has_rounding = false;
      HeapOrder order = HeapOrder::address;
      double zoom = 0;
      friend bool operator==(const Key&, const Key&) = default;
    };
    Key key;
    std::vector<Piece> pieces;
    std::vector<Title> titles;
    float height = 0;
  };

  static void draw_title(Scene& scene);
  static void draw_legend(Scene& scene);
  static void draw_hole(Scene& scene);
  static void choose_order(Scene& scene);
  static void draw_selected(Scene& scene, ImDrawList& list, const Area& area, const HeldSegment& segment,
                            const std::function<float(Address)>& x_of);
  void arrange_segments(const Scene& scene, const Area& area);
  void draw_piece(Scene& scene, ImDrawList& list, const Area& area, float segment_left, const Piece& piece);

  Layout layout_;
  StackLabels stack_labels_;
  std::function<std::uint32_t(std::uint32_t)> colour_of_;
  double zoom_ = 1;  // 1: everything fits
  float scroll_ = 0;
};

}  // namespace memreel::viewer
