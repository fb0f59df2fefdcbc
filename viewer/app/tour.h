// Shows a newcomer around: a box beside one pane after the other.
#pragma once

#include "viewer/panes/scene.h"

namespace memreel::viewer {

class Tour {
 public:
  void begin() { stop_ = 0; }
  void end() { stop_ = -1; }
  bool is_on() const { return stop_ >= 0; }
  /// The number of the pane that it is at; -1: it is not on.
  int stop() const { return stop_; }
  /// Begins by itself where it was never seen. `has_room`: whether all panes are on screen; it ends where they are not.
  void draw(Scene& scene, bool has_room, bool& seen);

 private:
  int stop_ = -1;
};

}  // namespace memreel::viewer
