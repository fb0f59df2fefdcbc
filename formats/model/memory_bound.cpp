// SPDX-License-Identifier: Apache-2.0
#include "formats/model/memory_bound.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>

#include "formats/model/files.h"

namespace memreel {
namespace {

#ifdef MEMREEL_SANITIZED
constexpr bool can_bound_memory = false;
#else
constexpr bool can_bound_memory = true;
#endif

/// What the program takes without input: itself, and the stacks of some threads.
Bytes own_memory() { return 64_MiB + 16_MiB * std::clamp(std::thread::hardware_concurrency(), 1U, 16U); }

}  // namespace

void bound_memory(std::span<const std::filesystem::path> files, Bytes memory_limit, Bytes more) {
  if (!can_bound_memory) return;
  if (memory_limit == 0_B) {
    std::uint64_t size = 0;
    for (const std::filesystem::path& file : files) {
      std::error_code problem;
      if (std::filesystem::is_regular_file(file, problem)) size += std::filesystem::file_size(file, problem);
    }
    memory_limit = default_memory_limit({size}, 256, 1_GiB);
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  constexpr std::uint64_t most = std::uint64_t{1} << 62U;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, std::min(memory_limit.count, most) + (own_memory() + more).count);
  setrlimit(RLIMIT_DATA, &limit);
}

std::optional<Bytes> memory_bound() {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return Bytes{limit.rlim_cur - std::min<rlim_t>(limit.rlim_cur, own_memory().count)};
}

void lift_memory_bound() {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace memreel
