// SPDX-License-Identifier: Apache-2.0
// A GPU of the fake driver, for one test.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "analyzer/replay/device/gpu.h"

namespace memreel::testing {

/// Opens GPU 0 with the settings of fake_libcuda.cpp.
inline Result<std::unique_ptr<gpu::Gpu>> open_fake_gpu(const std::map<std::string, std::string>& settings = {},
                                                       int number = 0) {
  for (const char* name : {"FAKE_CUDA_MEMORY", "FAKE_CUDA_GPUS", "FAKE_CUDA_BROKEN"}) {
    const auto found = settings.find(name);
    if (found == settings.end())
      unsetenv(name);  // NOLINT(concurrency-mt-unsafe): tests have one thread
    else
      setenv(name, found->second.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  auto driver = gpu::Driver::load(FAKE_LIBCUDA);
  if (!driver) return std::move(driver).error();
  return gpu::Gpu::open(*std::move(driver), number);
}

/// What the fake driver allocated and did not get back.
inline int fake_leaks() {
  void* const library = dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_NOLOAD);
  const auto leaks = reinterpret_cast<int (*)()>(dlsym(library, "fake_cuda_leaks"));
  dlclose(library);
  return leaks();
}

}  // namespace memreel::testing
