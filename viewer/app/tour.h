// The tour for new users: a box beside one pane after the other.
#pragma once

#include "viewer/panes/scene.h"

namespace memreel::viewer {

class Tour {
 public:
  void begin() { stop_ = 0; }
  void end() { stop_ = -1; }
  bool is_on() const { return stop_ >= 0; }
  /// The index of the current pane; -1: the tour is not running.
  int stop() const { return stop_; }
  /// Starts automatically if it was never shown. `has_room`: whether all panes are on screen; the tour ends if not.
  void draw(Scene& scene, bool has_room, bool& seen);

 private:
  int stop_ = -1;
};

}  // namespace memreel::viewer
