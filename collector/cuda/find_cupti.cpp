// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/find_cupti.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "collector/stacks/module_table.h"

namespace memreel::cuda {
namespace {

namespace fs = std::filesystem;

constexpr int oldest = 11, newest = 13;

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

/// 13 of "libcudart.so.13.0.48".
std::optional<int> major_of(std::string_view file, std::string_view library) {
  if (!file.starts_with(library)) return std::nullopt;
  file.remove_prefix(library.size());
  if (!file.starts_with(".so.")) return std::nullopt;
  const int major = std::atoi(std::string(file.substr(4)).c_str());
  return major > 0 ? std::optional(major) : std::nullopt;
}

/// Directories of `parent` whose names begin with `prefix`.
std::vector<fs::path> directories(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

/// Where Python packages are: around libraries loaded from there, where the environment says, next to the interpreter
/// (not a virtual environment's, whose interpreter is a link), and the user's own.
std::vector<fs::path> package_roots(const Surroundings& surroundings) {
  std::vector<fs::path> roots;
  for (const std::string& library : surroundings.mapped) {
    for (const std::string_view name : {"/site-packages/", "/dist-packages/"}) {
      const std::size_t at = library.find(name);
      if (at != std::string::npos) roots.emplace_back(library.substr(0, at + name.size() - 1));
    }
  }
  for (std::string_view rest = surroundings.python_path; !rest.empty();) {
    const std::string_view root = rest.substr(0, rest.find(':'));
    if (!root.empty()) roots.emplace_back(root);
    rest.remove_prefix(std::min(root.size() + 1, rest.size()));
  }
  const fs::path beside = surroundings.executable.parent_path().parent_path();
  for (const fs::path& prefix : {fs::path(surroundings.virtual_env), beside, fs::path(surroundings.python_user_base)}) {
    if (prefix.empty()) continue;
    for (const char* const lib : {"lib", "lib64", "local/lib"})
      for (const fs::path& python : directories(prefix / lib, "python3"))
        for (const char* const packages : {"site-packages", "dist-packages"}) roots.push_back(python / packages);
  }
  return roots;
}

/// Directories that may hold a libcupti of this major version.
std::vector<fs::path> places(const Surroundings& surroundings, int major) {
  std::vector<fs::path> found;
  for (const fs::path& root : package_roots(surroundings)) {
    found.push_back(root / "nvidia" / ("cu" + std::to_string(major)) / "lib");
    found.push_back(root / "nvidia" / "cuda_cupti" / "lib");
    found.push_back(root / "triton" / "backends" / "nvidia" / "lib" / "cupti");
  }
  std::vector<fs::path> toolkits;
  if (!surroundings.cuda_home.empty()) toolkits.emplace_back(surroundings.cuda_home);
  for (const fs::path& toolkit : directories("/usr/local", "cuda")) toolkits.push_back(toolkit);
  if (!surroundings.conda_prefix.empty()) toolkits.emplace_back(surroundings.conda_prefix);
  toolkits.push_back(surroundings.executable.parent_path().parent_path());
  for (const fs::path& toolkit : toolkits)
    for (const char* const lib :
         {"extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib",
          "targets/aarch64-linux/lib"})  // of Arm: servers, and Jetson before CUDA 13
      found.push_back(toolkit / lib);
  return found;
}

std::vector<int> majors(const Surroundings& surroundings) {
  std::vector<int> order;
  const auto add = [&](int major) {
    const bool usable = major <= surroundings.driver_major.value_or(newest);
    if (usable && std::find(order.begin(), order.end(), major) == order.end()) order.push_back(major);
  };
  for (const std::string& library : surroundings.mapped)
    if (const auto major = major_of(file_name(library), "libcudart")) add(*major);
  for (int major = std::max(surroundings.driver_major.value_or(newest), newest); major >= oldest; --major) add(major);
  return order;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value != nullptr ? value : "";
}

}  // namespace

std::optional<int> driver_version() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (driver == nullptr) return std::nullopt;
  int version = 0;
  using GetVersion = int (*)(int*);
  const auto get_version = reinterpret_cast<GetVersion>(::dlsym(driver, "cuDriverGetVersion"));
  if (get_version == nullptr || get_version(&version) != 0 || version < 1000) return std::nullopt;
  return version;
}

Surroundings surroundings() {
  const std::optional<int> driver = driver_version();
  Surroundings here{.driver_major = driver ? std::optional(*driver / 1000) : std::nullopt,
                    .cuda_home = variable("CUDA_HOME").empty() ? variable("CUDA_PATH") : variable("CUDA_HOME"),
                    .conda_prefix = variable("CONDA_PREFIX"),
                    .virtual_env = variable("VIRTUAL_ENV"),
                    .python_path = variable("PYTHONPATH"),
                    .python_user_base = variable("PYTHONUSERBASE")};
  if (const std::string home = variable("HOME"); here.python_user_base.empty() && !home.empty())
    here.python_user_base = home + "/.local";
  stacks::walk_loaded_modules(
      [](dl_phdr_info* library, std::size_t, void* mapped) {
        static_cast<std::vector<std::string>*>(mapped)->emplace_back(library->dlpi_name);
        return 0;
      },
      &here.mapped);
  std::error_code ignored;
  here.executable = fs::read_symlink("/proc/self/exe", ignored);
  return here;
}

std::vector<std::string> cupti_candidates(const Surroundings& surroundings) {
  for (const std::string& library : surroundings.mapped)
    if (file_name(library).starts_with("libcupti.so")) return {library};

  std::vector<std::string> candidates;
  const auto add = [&](const std::string& candidate) {
    if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end()) candidates.push_back(candidate);
  };
  for (const int major : majors(surroundings)) {
    const std::string name = "libcupti.so." + std::to_string(major);
    if (major >= 12) add(name);  // up to 11 the name continues with the minor version
    for (const fs::path& place : places(surroundings, major)) {
      std::error_code error;
      std::vector<std::string> files;
      for (fs::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error)) {
        const std::string file = entry->path().filename().string();
        if (file == name || (major < 12 && file.starts_with(name + "."))) files.push_back(entry->path().string());
      }
      std::sort(files.rbegin(), files.rend());
      for (const std::string& file : files) add(file);
    }
  }
  return candidates;
}

}  // namespace memreel::cuda
