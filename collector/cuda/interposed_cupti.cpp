// SPDX-License-Identifier: Apache-2.0
// CUPTI accepts one subscriber, unless all allow others (13.3 and newer). When another component of the program
// (torch.profiler's Kineto, XLA's profiler) requests it and can't share, memreel hands it over and records interposed
// driver calls from then on.
#include <dlfcn.h>
#include <link.h>

#include "collector/cuda/cupti_backend.h"
#include "collector/cuda/interposer.h"
#include "collector/cuda/real_driver.h"
#include "collector/stacks/module_table.h"
#include "formats/model/stack_text.h"

namespace memreel::cuda {
namespace {

/// A function in the process's libcupti; null if there is none.
void* real_cupti(const char* function) {
  std::string path;
  const auto look = [](dl_phdr_info* module, std::size_t, void* into) {
    if (!base_name(module->dlpi_name).starts_with("libcupti.so")) return 0;
    *static_cast<std::string*>(into) = module->dlpi_name;
    return 1;
  };
  stacks::walk_loaded_modules(look, &path);
  void* const library = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  return library != nullptr ? RealDriver::dlsym(library, function) : nullptr;
}

}  // namespace
}  // namespace memreel::cuda

using namespace memreel::cuda;         // NOLINT(google-build-using-namespace): what follows are C functions
using namespace memreel::cuda::cupti;  // NOLINT(google-build-using-namespace)

// NOLINTBEGIN(readability-identifier-naming): CUPTI's names
#pragma GCC visibility push(default)
extern "C" {

Result cuptiSubscribe(Subscriber* subscriber, Callback callback, void* user) {
  const auto real = reinterpret_cast<decltype(Functions::subscribe)>(real_cupti("cuptiSubscribe"));
  if (real == nullptr) return not_initialized;
  if (interposer::preloaded()) interposer::cupti_wanted(false);
  return real(subscriber, callback, user);
}

Result cuptiSubscribe_v2(Subscriber* subscriber, Callback callback, void* user, SubscriberParams* params) {
  const auto real = reinterpret_cast<decltype(Functions::subscribe_v2)>(real_cupti("cuptiSubscribe_v2"));
  if (real == nullptr) return not_initialized;
  const bool shares = params != nullptr && params->size > params_size_13_0 && params->allow_multiple != 0;
  if (interposer::preloaded()) interposer::cupti_wanted(shares);
  return real(subscriber, callback, user, params);
}
}
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
