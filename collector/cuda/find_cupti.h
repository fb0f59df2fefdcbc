// SPDX-License-Identifier: Apache-2.0
// Where libcupti may be, in the order to try.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "collector/cuda/real_driver.h"

namespace memreel::cuda {

// A function in a library opened at run time.

/// Sets `function` to what `library` itself exports as `name`, or to null. Our symbols that precede it are skipped.
template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(RealDriver::dlsym(library, name));
}

/// What is known about the process and the machine.
struct Surroundings {
  std::vector<std::string> mapped;  // files of the loaded libraries, in any order
  std::optional<int> driver_major;  // major CUDA version that the driver supports
  std::filesystem::path executable;
  // Environment variables; empty when not set.
  std::string cuda_home, conda_prefix;
  std::string virtual_env, python_path;
  std::string python_user_base;  // else ~/.local
};

/// The CUDA version that the loaded driver supports: 13020 for 13.2. None: no driver is loaded.
std::optional<int> driver_version();

/// Of this process.
Surroundings surroundings();

/// Existing files, or names for the loader's own search. If a copy is already loaded, it is the only candidate, since
/// two in one process conflict. Otherwise those of the CUDA version of the process's libcudart come first, and never
/// one newer than the driver, which could not work.
std::vector<std::string> cupti_candidates(const Surroundings& surroundings);

}  // namespace memreel::cuda
