// Where libcupti may be, in the order in which it should be tried.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace memreel::cuda {

/// What is known about the process and the machine.
struct Surroundings {
  std::vector<std::string> mapped;  // files of the libraries that are loaded, in any order
  std::optional<int> driver_major;  // of the CUDA version that the driver is made for
  std::filesystem::path executable;
  // Environment variables; empty when not set.
  std::string cuda_home, conda_prefix;
  std::string virtual_env, python_path;
  std::string python_user_base;  // else ~/.local
};

/// The CUDA version that the loaded driver is made for: 13020 for 13.2. None: no driver is loaded.
std::optional<int> driver_version();

/// Of this process.
Surroundings surroundings();

/// Files that exist, or names for the loader's own search. A copy that is loaded already is the only one, since two in
/// one process get into each other's way; else first those of the CUDA version that the process's libcudart has, and
/// never one of a later version than the driver's, which could not work.
std::vector<std::string> cupti_candidates(const Surroundings& surroundings);

}  // namespace memreel::cuda
