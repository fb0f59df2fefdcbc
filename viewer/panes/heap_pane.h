// The heap at the cursor: segments in address order, one lane for each pool and stream; blocks, holes, pending frees.
#pragma once

#include <functional>

#include "viewer/panes/draw.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

class HeapPane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  static void draw_title(Scene& scene);
  void draw_segment(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t number);
  std::function<std::uint32_t(std::uint32_t)> colour_of_;
  double zoom_ = 1;  // 1: all of it fits
  float scroll_ = 0;
};

}  // namespace memreel::viewer
