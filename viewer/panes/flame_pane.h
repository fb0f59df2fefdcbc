// The flame graph of what is live at the cursor or at the peak, allocated in the view, or leaked.
#pragma once

#include <memory>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/stack_weights.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

class FlamePane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  void draw_node(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t number);

  Weighing weighing_ = Weighing::live_at_cursor;
  Background<WeightQuery, std::vector<FlameNode>> flame_;
  std::shared_ptr<const std::vector<FlameNode>> shown_;
  double begin_ = 0, end_ = 1;  // part of the width on screen
  float scroll_ = 0;
};

}  // namespace memreel::viewer
