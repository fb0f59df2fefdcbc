// SPDX-License-Identifier: Apache-2.0
// Fingers on a touch screen, as the mouse that the viewer knows.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <span>

#include "viewer/app/frames.h"

namespace memreel::viewer {

/// A tap clicks. A drag to the side pans, as with the right button; one up or down turns the wheel, which scrolls lists
/// and zooms timelines. A drag from where a finger has rested marks a range, as with the left button and Shift. Two
/// fingers zoom where their middle is.
class Touch {
 public:
  /// What the fingers do to the mouse.
  struct Mouse {
    ImVec2 pointer{-1, -1};
    float wheel = 0;  // notches, positive: up
    bool shift = false;
  };

  /// `fingers`: where all fingers that touch the screen are, in pixels, the first to come first. `unit`: pixels per
  /// unit of length (1/96 inch). `now`: in seconds. To be called whenever a finger comes, moves or goes.
  Mouse follow(std::span<const ImVec2> fingers, float unit, double now, MouseButtons& buttons);

 private:
  enum class Gesture : std::uint8_t { none, undecided, pan, wheel, mark, pinch, over };

  void decide(ImVec2 at, float unit, double now, MouseButtons& buttons);
  /// The fingers have left, or others have come.
  void release(MouseButtons& buttons);

  Gesture gesture_ = Gesture::none;
  ImVec2 begun_{0, 0}, last_{0, 0};
  double since_ = 0;  // seconds
  float apart_ = 0;   // the two fingers, in pixels
};

}  // namespace memreel::viewer
