#include "viewer/app/offscreen_context.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <dlfcn.h>

#include <array>
#include <type_traits>

#include "viewer/app/opengl.h"

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
