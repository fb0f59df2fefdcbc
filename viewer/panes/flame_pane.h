// The flame graph of what is live at the cursor or at the peak, allocated in the view, or leaked: by stack or by layer.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/stack_weights.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

class FlamePane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);
  /// What is on screen, for tests: the first nodes of it.
  std::span<const FlameNode> first_nodes() const {
    return shown_ ? std::span(*shown_).first(std::min<std::size_t>(shown_->size(), 64)) : std::span<const FlameNode>();
  }
  /// What a node is called below `above`: "h.3.mlp" below the module "transformer", else a function.
  static std::string name_of(const Tables& tables, const FlameNode& node, const FlameNode* above);
  bool by_layer() const { return by_layer_; }

 private:
  struct Key {
    WeightQuery weights;
    bool by_layer = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  void choose_frames(Scene& scene);
  void draw_node(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t number);
  void draw_rest(Scene& scene, ImDrawList& list, const Area& area);

  Weighing weighing_ = Weighing::live_at_cursor;
  bool by_layer_ = false;
  Background<Key, std::vector<FlameNode>> flame_;
  std::shared_ptr<const std::vector<FlameNode>> shown_;
  double begin_ = 0, end_ = 1;  // part of the width on screen
  float scroll_ = 0;
};

}  // namespace memreel::viewer
