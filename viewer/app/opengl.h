// SPDX-License-Identifier: Apache-2.0
// OpenGL from elsewhere than GLFW: its functions, and a context without a display.
#pragma once

#include <memory>

#include "formats/model/result.h"

namespace memreel::viewer {

using OpenGlFinder = void (*(*)(const char* name))();
/// Call before the first use of OpenGL.
void find_opengl_with(OpenGlFinder other);

/// A context that draws only into framebuffers. libEGL is loaded when the first one is created: nothing else needs it.
class OffscreenContext {
 public:
  /// Makes it current on this thread. Fails without EGL, or if EGL needs a display.
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
