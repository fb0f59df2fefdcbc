#include "collector/trace/job.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "collector/trace/command_line.h"
#include "formats/model/launchers.h"
#include "formats/model/printable.h"

namespace memreel::agent {
namespace {

constexpr std::size_t longest_name = 100, longest_value = 1000;  // before escaping

constexpr std::array<std::string_view, 19> names{"GROUP_RANK",
                                                 "LOCAL_WORLD_SIZE",
                                                 "MASTER_ADDR",
                                                 "NODE_RANK",
                                                 "PMIX_NAMESPACE",
                                                 "POD_NAME",
                                                 "JOB_NAME",
                                                 "TORCHELASTIC_MAX_RESTARTS",
                                                 "TORCHELASTIC_RESTART_COUNT",
                                                 "TORCHELASTIC_RUN_ID",
                                                 "CUDA_VISIBLE_DEVICES",
                                                 "CUDA_DEVICE_ORDER",
                                                 "NVIDIA_VISIBLE_DEVICES",
                                                 "PYTORCH_ALLOC_CONF",
                                                 "PYTORCH_CUDA_ALLOC_CONF",
                                                 "PYTORCH_HIP_ALLOC_CONF",
                                                 "PYTORCH_NO_CUDA_MEMORY_CACHING",
                                                 "TF_FORCE_GPU_ALLOW_GROWTH",
                                                 "TF_GPU_ALLOCATOR"};
constexpr std::array<std::string_view, 4> prefixes{"SLURM_", "OMPI_", "PMI_", "XLA_PYTHON_CLIENT_"};

bool is_one_that_counts(std::string_view name) {
  const auto of_a_launcher = [name](const Launcher& launcher) {
    return name == launcher.rank || (launcher.world_size != nullptr && name == launcher.world_size) ||
           (launcher.local_rank != nullptr && name == launcher.local_rank);
  };
  return std::ranges::find(names, name) != names.end() || std::ranges::any_of(launchers, of_a_launcher);
}

bool has_a_known_prefix(std::string_view name) {
  return name.size() <= longest_name && is_printable(name) &&
         std::ranges::any_of(prefixes, [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "12.4.127" of "libcudart.so.12.4.127" and of "libcudart-0123abcd.so.12.4.127"; empty: another library, or no
/// version.
std::string_view version_of(std::string_view file, std::string_view library) {
  if (!file.starts_with(library)) return {};
  const std::size_t suffix = file.find(".so.", library.size());
  if (suffix == std::string_view::npos || (suffix != library.size() && file[library.size()] != '-')) return {};
  return file.substr(suffix + 4);
}

/// "3.11" of "python3.11" and "libpython3.11.so.1.0".
std::string_view python_version(std::string_view file) {
  for (const std::string_view program : {"python", "libpython"}) {
    if (!file.starts_with(program)) continue;
    const std::string_view rest = file.substr(program.size());
    std::size_t length = 0;
    while (length < rest.size() && (is_digit(rest[length]) || rest[length] == '.')) ++length;
    while (length > 0 && rest[length - 1] == '.') --length;
    if (rest.substr(0, length).find('.') != std::string_view::npos) return rest.substr(0, length);
  }
  return {};
}

/// What torch/version.py says, for torch/lib/libtorch_cpu.so.
std::string torch_version(std::string_view library) {
  constexpr std::string_view assignment = "__version__ = '";
  std::ifstream file(std::filesystem::path(library).parent_path().parent_path() / "version.py");
  std::array<char, 4096> beginning{};
  file.read(beginning.data(), beginning.size());
  const std::string_view text(beginning.data(), static_cast<std::size_t>(file.gcount()));
  const std::size_t begin = text.find(assignment);
  if (begin == std::string_view::npos) return {};
  const std::string_view version = text.substr(begin + assignment.size());
  return std::string(version.substr(0, version.find('\'')));
}

void add(Variables& variables, std::string name, std::string_view value) {
  if (!value.empty() && value.size() <= longest_value) variables.try_emplace(std::move(name), printable(value));
}

}  // namespace

Variables job_environment(const char* const* environment, bool mask) {
  Variables found;
  const auto add_those = [&](auto&& wanted) {
    for (const char* const* at = environment; at != nullptr && *at != nullptr && found.size() < max_variables; ++at) {
      const std::string_view entry = *at;
      const std::size_t name = entry.find('=');
      if (name == std::string_view::npos || !wanted(entry.substr(0, name))) continue;
      const std::string key(entry.substr(0, name));
      const std::string value(entry.substr(name + 1, longest_value));
      found.try_emplace(key, printable(mask ? masked_value(key, value) : value));
    }
  };
  add_those(is_one_that_counts);  // whatever else there is
  add_those(has_a_known_prefix);
  return found;
}

Variables loaded_versions(std::istream& maps) {
  Variables versions;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    const std::string_view path = std::string_view(line).substr(begin), file = base_name(path);
    add(versions, "cuda.driver", version_of(file, "libcuda"));
    add(versions, "cuda.runtime", version_of(file, "libcudart"));
    add(versions, "python", python_version(file));
    if (file == "libtorch_cpu.so" && !versions.contains("torch")) add(versions, "torch", torch_version(path));
  }
  return versions;
}

}  // namespace memreel::agent
