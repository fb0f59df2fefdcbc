// OpenGL without any display, through EGL: for pictures, where neither X11 nor Wayland runs.
#pragma once

#include <memory>

#include "formats/model/result.h"

namespace memreel::viewer {

/// A context that draws into framebuffers alone. libEGL is loaded when one is made: nothing else needs it.
class OffscreenContext {
 public:
  /// Makes it the current one of this thread. Fails where there is no EGL, or none that does without a display.
  static Result<std::unique_ptr<OffscreenContext>> create();
  OffscreenContext(const OffscreenContext&) = delete;
  OffscreenContext& operator=(const OffscreenContext&) = delete;
  ~OffscreenContext();

 private:
  OffscreenContext() = default;

  void* display_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace memreel::viewer
