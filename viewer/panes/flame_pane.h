// SPDX-License-Identifier: Apache-2.0
// The flame graph of memory live at the cursor or at the peak, allocated in the view, or leaked: by stack or by layer.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/flame.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/list_panes.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

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

}  // namespace memreel::viewer
