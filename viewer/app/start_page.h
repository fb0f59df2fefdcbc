// SPDX-License-Identifier: Apache-2.0
// For who has nothing on screen yet: the page shown while there is no trace, and the tour.
#pragma once

#include <span>

#include "viewer/model/document.h"
#include "viewer/model/source.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {

struct Welcome {
  std::string what, remedy;
  bool busy = false;  // still loading
};
/// `source`: null if no file is open. `document`: what was read of it so far, which has nothing to show.
Welcome welcome_to(const Source* source, const Document& document);

/// What to open in the next frame.
struct StartChoice {
  bool sample = false;
  std::string file;  // empty: none
};
/// `recent`: files, most recent first. Returns the one that was clicked; empty: none.
std::string draw_start_page(Scene& scene, const Welcome& welcome, std::span<const std::string> recent);

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
