// SPDX-License-Identifier: Apache-2.0
// The cost of CUPTI itself: a library to be injected (CUDA_INJECTION64_PATH) that subscribes to the calls that memreel
// records, with empty callbacks.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/fake/abi.h"

namespace {

using namespace fake::cupti;  // NOLINT(google-build-using-namespace): all of it is needed, and nothing else is here

// cuMemAlloc_v2, cuMemFree_v2, cuMemAllocAsync, cuMemFreeAsync: the calls of the measured programs.
constexpr std::array<unsigned, 4> calls{243, 245, 598, 600};

void nothing(void*, unsigned, unsigned, const void*) {}

}  // namespace

extern "C" __attribute__((visibility("default"))) int
InitializeInjection() {  // NOLINT(readability-identifier-naming): CUDA asks for this name
  const char* const name = std::getenv("MEMREEL_LIBCUPTI");
  void* const library = dlopen(name != nullptr ? name : "libcupti.so.13", RTLD_NOW);
  if (library == nullptr) return std::fprintf(stderr, "bare_cupti: %s\n", dlerror()), 1;
  const auto subscribe = reinterpret_cast<Result (*)(Subscriber**, Callback, void*)>(dlsym(library, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<Result (*)(std::uint32_t, Subscriber*, unsigned, unsigned)>(
      dlsym(library, "cuptiEnableCallback"));
  Subscriber* subscriber = nullptr;
  Result result = subscribe(&subscriber, nothing, nullptr);
  for (const unsigned call : calls)
    if (result == ok) result = enable(1, subscriber, driver_domain, call);
  if (result != ok) std::fprintf(stderr, "bare_cupti: CUPTI error %d\n", result);
  return 1;
}
