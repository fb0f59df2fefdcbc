// The heap at the cursor: segments in address order, one lane for each pool and stream; blocks, holes, pending frees.
#pragma once

#include "viewer/panes/draw.h"

namespace memreel::viewer {

class HeapPane {
 public:
  void draw(Scene& scene);

 private:
  void draw_segment(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t segment);
  double zoom_ = 1;  // 1: all of it fits
  float scroll_ = 0;
};

}  // namespace memreel::viewer
