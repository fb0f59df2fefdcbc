// What is there while no trace is: why, and what to do about it.
#pragma once

#include <span>
#include <string>

#include "viewer/model/document.h"
#include "viewer/model/source.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {

struct Welcome {
  std::string what, remedy;
  bool busy = false;  // it is only to be waited for
};
/// `source`: null where no file is open. `document`: what was read of it, which is nothing that could be shown.
Welcome welcome_to(const Source* source, const Document& document);

/// What was clicked.
struct StartChoice {
  bool ask = false;   // for a file
  bool tour = false;  // of the sample
  std::string file;   // one of the last; empty: none
};
/// `recent`: files, the latest first.
StartChoice draw_start_page(Scene& scene, const Welcome& welcome, std::span<const std::string> recent);

}  // namespace memreel::viewer
