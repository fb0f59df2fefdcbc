// SPDX-License-Identifier: Apache-2.0
// OpenGL's functions, looked up on first call, so that memreel-view starts without OpenGL and reports what is missing.
// These are all that window.cpp and panes/draw.cpp use; Dear ImGui looks up its own.

#include "viewer/app/opengl.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
#include <GLFW/glfw3.h>
#include <dlfcn.h>

#include <array>
#include <type_traits>

namespace {

memreel::viewer::OpenGlFinder& finder() {
  static memreel::viewer::OpenGlFinder current = glfwGetProcAddress;
  return current;
}

/// Calls OpenGL's function `name`, of the type of `declared`, in the current context.
template <auto declared, typename... Arguments>
void call(const char* name, Arguments... arguments) {
  static const auto function = reinterpret_cast<decltype(declared)>(finder()(name));
  function(arguments...);
}

}  // namespace

void memreel::viewer::find_opengl_with(OpenGlFinder other) { finder() = other; }

void glBindFramebuffer(GLenum target, GLuint framebuffer) {
  call<glBindFramebuffer>("glBindFramebuffer", target, framebuffer);
}

void glBindTexture(GLenum target, GLuint texture) { call<glBindTexture>("glBindTexture", target, texture); }

void glClear(GLbitfield mask) { call<glClear>("glClear", mask); }

void glClearColor(GLclampf red, GLclampf green, GLclampf blue, GLclampf alpha) {
  call<glClearColor>("glClearColor", red, green, blue, alpha);
}

void glDeleteFramebuffers(GLsizei count, const GLuint* framebuffers) {
  call<glDeleteFramebuffers>("glDeleteFramebuffers", count, framebuffers);
}

void glDeleteTextures(GLsizei count, const GLuint* textures) {
  call<glDeleteTextures>("glDeleteTextures", count, textures);
}

void glFinish() { call<glFinish>("glFinish"); }

void glFramebufferTexture2D(GLenum target, GLenum attachment, GLenum kind, GLuint texture, GLint level) {
  call<glFramebufferTexture2D>("glFramebufferTexture2D", target, attachment, kind, texture, level);
}

void glGenFramebuffers(GLsizei count, GLuint* framebuffers) {
  call<glGenFramebuffers>("glGenFramebuffers", count, framebuffers);
}

void glGenTextures(GLsizei count, GLuint* textures) { call<glGenTextures>("glGenTextures", count, textures); }

void glPixelStorei(GLenum name, GLint value) { call<glPixelStorei>("glPixelStorei", name, value); }

void glReadBuffer(GLenum mode) { call<glReadBuffer>("glReadBuffer", mode); }

void glReadPixels(GLint x, GLint y, GLsizei width, GLsizei height, GLenum format, GLenum type, GLvoid* pixels) {
  call<glReadPixels>("glReadPixels", x, y, width, height, format, type, pixels);
}

void glTexImage2D(GLenum target, GLint level, GLint inside, GLsizei width, GLsizei height, GLint border, GLenum format,
                  GLenum type, const GLvoid* pixels) {
  call<glTexImage2D>("glTexImage2D", target, level, inside, width, height, border, format, type, pixels);
}

void glTexParameteri(GLenum target, GLenum name, GLint value) {
  call<glTexParameteri>("glTexParameteri", target, name, value);
}

void glViewport(GLint x, GLint y, GLsizei width, GLsizei height) {
  call<glViewport>("glViewport", x, y, width, height);
}

namespace memreel::viewer {

namespace {

/// EGL's functions. The library stays loaded, because drivers don't unload cleanly.
struct Egl {
  void* library = ::dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);

  template <typename Function>
  std::add_pointer_t<Function> find(const char* name) const {
    return reinterpret_cast<std::add_pointer_t<Function>>(library != nullptr ? ::dlsym(library, name) : nullptr);
  }

  decltype(&eglGetProcAddress) get_proc_address = find<decltype(eglGetProcAddress)>("eglGetProcAddress");
  decltype(&eglInitialize) initialize = find<decltype(eglInitialize)>("eglInitialize");
  decltype(&eglTerminate) terminate = find<decltype(eglTerminate)>("eglTerminate");
  decltype(&eglBindAPI) bind_api = find<decltype(eglBindAPI)>("eglBindAPI");
  decltype(&eglChooseConfig) choose_config = find<decltype(eglChooseConfig)>("eglChooseConfig");
  decltype(&eglCreateContext) create_context = find<decltype(eglCreateContext)>("eglCreateContext");
  decltype(&eglDestroyContext) destroy_context = find<decltype(eglDestroyContext)>("eglDestroyContext");
  decltype(&eglMakeCurrent) make_current = find<decltype(eglMakeCurrent)>("eglMakeCurrent");

  bool is_complete() const {
    return get_proc_address != nullptr && initialize != nullptr && terminate != nullptr && bind_api != nullptr &&
           choose_config != nullptr && create_context != nullptr && destroy_context != nullptr &&
           make_current != nullptr;
  }
};

const Egl& egl() {
  static const Egl one;
  return one;
}

/// Mesa's surfaceless display, else the first device's, as with NVIDIA's driver.
EGLDisplay display() {
  const auto get =
      reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(egl().get_proc_address("eglGetPlatformDisplayEXT"));
  if (get == nullptr) return EGL_NO_DISPLAY;
  const auto initialized = [](EGLDisplay found) {
    return found != EGL_NO_DISPLAY && egl().initialize(found, nullptr, nullptr) == EGL_TRUE;
  };
  if (EGLDisplay found = get(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr); initialized(found))
    return found;
  const auto query = reinterpret_cast<PFNEGLQUERYDEVICESEXTPROC>(egl().get_proc_address("eglQueryDevicesEXT"));
  EGLDeviceEXT device = nullptr;
  EGLint count = 0;
  if (query == nullptr || query(1, &device, &count) != EGL_TRUE || count < 1) return EGL_NO_DISPLAY;
  EGLDisplay found = get(EGL_PLATFORM_DEVICE_EXT, device, nullptr);
  return initialized(found) ? found : EGL_NO_DISPLAY;
}

}  // namespace

Result<std::unique_ptr<OffscreenContext>> OffscreenContext::create() {
  if (!egl().is_complete()) return Error{.what = "libEGL.so.1 can't be loaded"};
  std::unique_ptr<OffscreenContext> made(new OffscreenContext);
  made->display_ = display();
  if (made->display_ == EGL_NO_DISPLAY) return Error{.what = "no EGL driver works without a display"};
  constexpr std::array<EGLint, 5> kind{EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT,
                                       EGL_NONE};
  constexpr std::array<EGLint, 7> version{
      EGL_CONTEXT_MAJOR_VERSION,           3,       EGL_CONTEXT_MINOR_VERSION, 3, EGL_CONTEXT_OPENGL_PROFILE_MASK,
      EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT, EGL_NONE};
  EGLConfig config = nullptr;
  EGLint count = 0;
  if (egl().bind_api(EGL_OPENGL_API) == EGL_TRUE &&
      egl().choose_config(made->display_, kind.data(), &config, 1, &count) == EGL_TRUE && count == 1)
    made->context_ = egl().create_context(made->display_, config, EGL_NO_CONTEXT, version.data());
  if (made->context_ == EGL_NO_CONTEXT ||
      egl().make_current(made->display_, EGL_NO_SURFACE, EGL_NO_SURFACE, made->context_) != EGL_TRUE)
    return Error{.what = "EGL does not support OpenGL 3.3"};
  find_opengl_with([](const char* name) { return egl().get_proc_address(name); });
  return made;
}

OffscreenContext::~OffscreenContext() {
  if (context_ != EGL_NO_CONTEXT) {
    egl().make_current(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    egl().destroy_context(display_, context_);
  }
  if (display_ != EGL_NO_DISPLAY) egl().terminate(display_);
}

}  // namespace memreel::viewer
