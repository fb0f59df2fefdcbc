#include "collector/record/environment.h"

#include <system_error>

namespace memreel::record {
namespace {

constexpr const char* agent_name = "libmemreel-agent.so";

}  // namespace

Result<std::filesystem::path> find_agent() {
  std::error_code problem;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", problem).parent_path();
  for (const char* place : {"../lib", "../lib/memreel", "../lib64", "."}) {
    const std::filesystem::path candidate = (here / place / agent_name).lexically_normal();
    if (std::filesystem::exists(candidate, problem)) return candidate;
  }
  return Error{.what = std::string(agent_name) + " not found next to this program",
               .where = (here / "../lib").lexically_normal().string(),
               .remedy = "reinstall memreel"};
}

Injection injection_of(const std::filesystem::path& agent, const agent::Options& options, const agent::Lookup& lookup) {
  Injection injection{.variables = agent::to_environment(options)};
  const std::string library = agent.string();

  const std::string injected = lookup("CUDA_INJECTION64_PATH").value_or("");
  if (!injected.empty() && injected != library)
    injection.notes.push_back("CUDA_INJECTION64_PATH was " + injected +
                              "; CUDA loads only one library, so memreel's replaces it");
  injection.variables.emplace_back("CUDA_INJECTION64_PATH", library);

  // NVTX also accepts only one library. If it is set, the user wants the ranges elsewhere.
  const std::string ranges = lookup("NVTX_INJECTION64_PATH").value_or("");
  if (ranges.empty() || ranges == library)
    injection.variables.emplace_back("NVTX_INJECTION64_PATH", library);
  else
    injection.notes.push_back("NVTX ranges are not recorded: NVTX_INJECTION64_PATH is already set to " + ranges);

  // Our symbols must precede PyTorch's and CUDA's, which only preloading achieves.
  if (!options.torch && options.backend == agent::BackendChoice::cupti) return injection;
  if (library.find_first_of(" :") != std::string::npos) {
    injection.notes.push_back("can't record PyTorch's tensors: LD_PRELOAD does not allow the space or colon in " +
                              library);
    return injection;
  }
  const std::string others = lookup("LD_PRELOAD").value_or("");
  injection.variables.emplace_back("LD_PRELOAD", others.empty() ? library : library + ":" + others);
  // A program with AddressSanitizer ends at once if any library precedes the sanitizer's, though ours replaces nothing
  // that it does.
  const std::string sanitizer = lookup("ASAN_OPTIONS").value_or("");
  constexpr const char* any_order = "verify_asan_link_order=0";
  injection.variables.emplace_back("ASAN_OPTIONS", sanitizer.empty() ? any_order : sanitizer + ":" + any_order);
  return injection;
}

}  // namespace memreel::record
