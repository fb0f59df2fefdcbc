#include "collector/torch/other_allocator.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "collector/torch/allocator_trace.h"
#include "formats/torch/alloc_conf.h"

namespace memreel::torch {

// NOLINTBEGIN(concurrency-mt-unsafe): reads only
std::string other_allocator() {
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  dlclose(library);
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) return "the driver (PYTORCH_NO_CUDA_MEMORY_CACHING)";
  for (const char* const variable : conf_variables)
    if (const char* const conf = std::getenv(variable);
        conf != nullptr && value_in(conf, "backend") == "cudaMallocAsync")
      return "cudaMallocAsync (backend:cudaMallocAsync)";
  return is_replaced() ? "a pluggable allocator" : "";
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace memreel::torch
