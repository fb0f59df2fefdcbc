// The page shown while there is no trace to show: why, and what to do about it.
#pragma once

#include <span>
#include <string>

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

/// The user's click.
struct StartChoice {
  bool ask = false;   // open the file dialog
  bool tour = false;  // start the tour of the sample
  std::string file;   // a recent file; empty: none
};
/// `recent`: files, most recent first.
StartChoice draw_start_page(Scene& scene, const Welcome& welcome, std::span<const std::string> recent);

}  // namespace memreel::viewer
