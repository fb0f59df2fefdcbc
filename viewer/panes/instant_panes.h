// SPDX-License-Identifier: Apache-2.0
// The panes that show an instant, and what is selected in it; and the summary, which leads to instants.
#pragma once

#include <imgui.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "viewer/model/allocation_map.h"
#include "viewer/model/background.h"
#include "viewer/model/flame.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/labels.h"
#include "viewer/model/space.h"
#include "viewer/model/verdict_strip.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/list_panes.h"
#include "viewer/panes/scene.h"
#include "viewer/panes/table.h"
#include "viewer/panes/verdicts.h"
#include "viewer/panes/widgets.h"

namespace memreel::viewer {

// The heap at the cursor: segments by address, size or age, one lane for each pool and stream; blocks, gaps, rounding,
// pending frees. A click selects a block, a hole, or with Ctrl the segment.

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

// The allocation map: address over time, each allocation a rectangle.

/// The colours of allocations, as chosen in the selection. `findings`: null until they are ready. Built once for a
/// document; afterwards it needs only the allocation's number, on any thread.
ColourOf colours_of(const Scene& scene, const std::shared_ptr<const Findings>& findings);

/// The same, with everything pale outside the stack or category that is selected or pointed at.
ColourOf with_others_pale(const Scene& scene, ColourOf colour);

class MapPane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  void draw_toolbar(Scene& scene);
  /// A legend entry.
  struct Entry {
    std::string name;
    Colour colour{};
    std::optional<StackId> stack;  // its stack, or
    std::optional<Category> category;
  };
  std::vector<Entry> named_colours(const Scene& scene);
  void draw_legend(Scene& scene, float right);
  /// The stacks in the legend: those that hold most at the cursor.
  const std::vector<StackId>& heaviest_stacks(const Scene& scene);
  void request(Scene& scene, const Area& area, const std::shared_ptr<const Findings>& findings);
  void draw_picture(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void point(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  /// Labels bytes and addresses upwards; time to the right if no other pane on screen does.
  void draw_axes(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) const;
  /// Labels large allocations.
  void draw_labels(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  /// The screen position of a position on the address scale.
  float y_of(const Area& area, std::uint64_t offset) const;
  /// The screen area of an allocation; none if it belongs to another heap.
  std::optional<Area> box_of(const Scene& scene, const TimeAxis& axis, const Area& area, std::uint32_t id) const;
  void frame_allocation(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint32_t id,
                        Colour colour) const;

  Background<MapQuery, MapPicture> picture_;
  std::shared_ptr<const MapPicture> shown_;
  Texture texture_;
  StackLabels stack_labels_;
  double low_ = 0, high_ = 1;  // visible part of the address scale
  struct Heaviest {
    HeapId heap = HeapId::none;
    std::uint32_t event = 0, version = 0;
    std::vector<StackId> stacks;
  };
  Heaviest heaviest_;
  ImVec2 pointed_at_{-1, -1};
  std::optional<std::uint32_t> pointed_;
};

// The flame graph of memory live at the cursor or at the peak, allocated in the view, or leaked: by stack or by layer.

class FlamePane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);
  /// The first nodes on screen, for tests.
  std::span<const FlameNode> first_nodes() const {
    return shown_ ? std::span(*shown_).first(std::min<std::size_t>(shown_->size(), 64)) : std::span<const FlameNode>();
  }
  /// The label of a node's bar, besides its bytes: "forward  model.py:240"; by layer "h.3.mlp" below the module
  /// "transformer", else "model.py:240  forward".
  std::string name_of(const Tables& tables, const FlameNode& node) const;

 private:
  /// The shape: which frames are nodes, and in which order.
  struct Frames {
    bool by_layer = false, bottom_up = false, wrappers = false;
    friend bool operator==(const Frames&, const Frames&) = default;
  };
  struct Key {
    WeightQuery weights;
    Frames frames;
    std::uint32_t classified = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  void choose_frames(Scene& scene);
  static FlameShape shape_of(const Document& document, const std::shared_ptr<const Classification>& known,
                             const Frames& frames);
  void draw_node(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t number);
  /// Keys move from bar to bar, if the graph has the focus.
  void take_keys(Scene& scene, const Area& area, float row, std::span<const FocusKey> keys);
  std::uint32_t beside(int by) const;
  std::uint32_t widest_child(std::uint32_t parent) const;
  void zoom_to(const FlameNode& node);
  void draw_rest(Scene& scene, ImDrawList& list, const Area& area);

  WeighingChoice weighing_;
  Frames frames_;
  Background<Key, std::vector<FlameNode>> flame_;
  std::shared_ptr<const std::vector<FlameNode>> shown_;
  double begin_ = 0, end_ = 1;  // visible part of the width
  float scroll_ = 0;
  std::uint32_t cursor_ = 0;  // the keyboard's bar
};

// The part of the inspector about a segment, or a hole in it: its blocks, until when each lives, what keeps it.

class SpaceView {
 public:
  SpaceView();
  /// `address`: in the heap at the cursor.
  void draw(Scene& scene, Address address);
  /// What was drawn last; null: nothing is reserved there. For tests.
  const Space* shown() const { return space_.get(); }

 private:
  struct Key {
    std::shared_ptr<const Document> document;
    HeapId heap = HeapId::none;
    std::uint32_t event = 0;
    bool has_rounding = false;
    Address address;
    friend bool operator==(const Key&, const Key&) = default;
  };

  void draw_hole(const Scene& scene) const;
  void draw_segment(Scene& scene) const;
  void draw_places(Scene& scene);
  void draw_blocks(Scene& scene);

  Key key_;
  std::shared_ptr<const Space> space_;
  Table places_, blocks_;
};

// The selection: its lifetime, its address, its stack with source lines, its segment.

class InspectorPane {
 public:
  void draw(Scene& scene);
  /// The segment on screen; null: none. For tests.
  const Space* space() const { return shows_space_ ? space_.shown() : nullptr; }

 private:
  void draw_selected(Scene& scene);
  void draw_trace(Scene& scene);
  static void draw_range(Scene& scene, TimeRange range);
  static void draw_heading(Scene& scene, std::uint32_t id);
  void choose_part(Scene& scene, bool whole, bool offers_space);
  void draw_allocation(Scene& scene, std::uint32_t id);
  static void draw_purpose(Scene& scene, const Allocation& a);
  void draw_stack(Scene& scene, StackId stack);
  void draw_frame(Scene& scene, const StackLine& line);
  /// A line of a source file, if the file is available; read once.
  const std::string& source_line(const std::string& file, std::uint32_t line);

  std::map<std::string, std::vector<std::string>> files_;
  std::vector<StackLine> lines_;  // of the stack shown last
  StackId lines_of_ = StackId::none;
  std::shared_ptr<const Tables> lines_tables_;  // the tables that it belongs to
  float details_height_ = 0;                    // of an allocation as last drawn, in units of length; 0: not yet
  bool shows_stack_ = true;                     // instead of the details, if there is no room for both
  bool wants_space_ = false;                    // the segment of a selected allocation instead of both
  bool shows_space_ = false;
  SpaceView space_;
  bool unfolded_ = false;  // whether frames that only pass a call on are shown
};

// The summary of the trace: the main finding, who holds the peak, what leaks, the setting that helps. Each is a click
// away from its moment.

class Flow;

/// The action requested by a click.
struct VerdictAction {
  std::optional<Destination> go;
  std::string overlay;  // a policy to replay and overlay on the timeline; empty: none
};

class VerdictPane {
 public:
  /// Draws it as lines above all panes: one for each thing, and nothing is cut. A low window has only the finding and
  /// the setting, and a button for the rest.
  VerdictAction draw_strip(Scene& scene, Verdicts& verdicts);
  /// Draws it alone in the window, each item on its own line.
  VerdictAction draw(Scene& scene, Verdicts& verdicts);
  /// The height of the strip as it was last drawn, including the space around it.
  float strip_height(const Scene& scene) const;
  /// Copies the setting that helps, as a line for a shell; does nothing without one.
  void copy_setting();
  /// The strip on screen, for tests; null until it is ready.
  const VerdictStrip* shown() const { return of_ ? &strip_ : nullptr; }

 private:
  /// Requests the findings; shows a status and returns false until they are ready.
  bool update(Scene& scene, Verdicts& verdicts);
  VerdictAction draw_items(Scene& scene, Verdicts& verdicts, bool beside);
  /// Whether all lines would take more of the window than the panes can spare.
  bool is_low(const Scene& scene, float width) const;
  void draw_headline(Scene& scene, Flow& flow, VerdictAction& action);
  void draw_holders(Scene& scene, Flow& flow, bool beside, VerdictAction& action);
  /// `low`: there is one line for it.
  void draw_offer(Scene& scene, Flow& flow, bool low, VerdictAction& action);

  std::shared_ptr<const Findings> of_;  // the source of strip_
  std::uint32_t version_ = 0;           // and its number of events
  VerdictStrip strip_;
  std::optional<double> copied_at_;  // in seconds; the button says so for a moment
  float height_ = 0;                 // of what was drawn
};

// Lays out things of a given size from left to right, in as many lines as they need.

class Flow {
 public:
  Flow(ImVec2 from, float width, float line_gap) : from_(from), at_(from), width_(width), gap_(line_gap) {}

  /// Of a whole line.
  float width() const { return width_; }
  /// The place of the next thing, after a space of `before`; on a new line if it does not fit on this one.
  Area next(ImVec2 size, float before = 0) {
    if (at_.x > from_.x) {
      at_.x += before;
      if (at_.x + size.x > from_.x + width_) new_line();
    }
    const Area area{at_.x, at_.y, at_.x + size.x, at_.y + size.y};
    at_.x += size.x;
    line_ = std::max(line_, size.y);
    return area;
  }
  void new_line() {
    if (at_.x == from_.x) return;
    at_ = {from_.x, at_.y + line_ + gap_};
    line_ = 0;
  }
  /// Of all lines so far.
  float height() const { return at_.x == from_.x ? std::max(at_.y - gap_ - from_.y, 0.0F) : at_.y + line_ - from_.y; }

 private:
  ImVec2 from_, at_;
  float width_, gap_, line_ = 0;
};

}  // namespace memreel::viewer
