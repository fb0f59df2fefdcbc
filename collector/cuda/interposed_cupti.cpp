// CUPTI has room for one. When another part of the program (torch.profiler's Kineto, which is linked with libcupti)
// asks for it, it gets it, and the driver's calls are taken as they pass through the library from then on.
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>
#include <string_view>

#include "collector/cuda/cupti_api.h"
#include "collector/cuda/interposer.h"
#include "collector/stacks/loader_walk.h"

namespace memreel::cuda {
namespace {

/// CUPTI's own function, of the library that is in the process; null when there is none.
decltype(cupti::Functions::subscribe) real_subscribe() {
  std::string path;
  const auto look = [](dl_phdr_info* module, std::size_t, void* into) {
    const char* const slash = std::strrchr(module->dlpi_name, '/');
    const std::string_view name = slash != nullptr ? slash + 1 : module->dlpi_name;
    if (!name.starts_with("libcupti.so")) return 0;
    *static_cast<std::string*>(into) = module->dlpi_name;
    return 1;
  };
  stacks::walk_loaded_modules(look, &path);
  void* const library = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<decltype(cupti::Functions::subscribe)>(::dlsym(library, "cuptiSubscribe"));
}

}  // namespace
}  // namespace memreel::cuda

// NOLINTNEXTLINE(readability-identifier-naming): CUPTI's name
extern "C" [[gnu::visibility("default")]] memreel::cuda::cupti::Result cuptiSubscribe(
    memreel::cuda::cupti::Subscriber* subscriber, memreel::cuda::cupti::Callback callback, void* user) {
  constexpr memreel::cuda::cupti::Result not_initialized = 15;
  const auto real = memreel::cuda::real_subscribe();
  if (real == nullptr) return not_initialized;
  if (memreel::cuda::interposer::preloaded()) memreel::cuda::interposer::cupti_wanted();
  return real(subscriber, callback, user);
}
