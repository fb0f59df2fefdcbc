// SPDX-License-Identifier: Apache-2.0
#include "formats/model/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "formats/model/quantity.h"

namespace memreel {

int move_up(int file) {
  for (const int lowest : {1000, 100}) {
    const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, lowest);
    if (moved < 0) continue;
    ::close(file);
    return moved;
  }
  return file;
}

std::optional<FileIdentity> identity_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev, .inode = status.st_ino};
}

std::string remedy_of_opening(int problem, std::string otherwise) {
  if (problem == EMFILE) return "allow more open files: ulimit -n 256";
  if (problem == ENFILE) return "end other programs: the machine has no more open files";
  return otherwise;
}

Result<std::string> read_whole_file(const std::filesystem::path& file, std::string remedy) {
  constexpr std::size_t step = 16384;
  const auto failed = [&](std::string what) {
    return Error{.what = std::move(what), .where = file.string(), .offset = {}, .remedy = std::move(remedy)};
  };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int problem = errno;
    remedy = remedy_of_opening(problem, std::move(remedy));
    return failed("can't be opened: " + std::generic_category().message(problem));
  }
  std::string text;
  ssize_t count = 1;
  while (count > 0 && text.size() <= most_of_a_whole_file) {
    const std::size_t length = text.size();
    text.resize(length + step);
    do count = ::read(descriptor, text.data() + length, step);
    while (count < 0 && errno == EINTR);
    text.resize(length + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  const int problem = errno;
  ::close(descriptor);
  if (count < 0) return failed("can't be read: " + std::generic_category().message(problem));
  if (count > 0) return failed("is larger than 256 MiB");
  return text;
}

Bytes default_memory_limit(Bytes file_size, std::uint64_t factor, Bytes least) {
  const Bytes machine{static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
  const bool overflows = file_size.count > std::numeric_limits<std::uint64_t>::max() / factor;
  const Bytes of_file = overflows ? machine : std::max(file_size * factor, least);
  return std::min(of_file, Bytes{machine.count / 4});
}

Error over_memory_limit(const std::string& where, const std::string& what, Bytes limit) {
  return {.what = what + " " + text_of(limit),
          .where = where,
          .remedy = "allow more with --max-memory if you trust the file"};
}

std::filesystem::path sample_trace() {
  constexpr std::string_view name = "gpt_default.reel";  // has marks, stacks and growth, and loads quickly
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem) return {};
  const std::filesystem::path home = self.parent_path().parent_path();
  if (auto file = home / "share/memreel/samples" / name; std::filesystem::is_regular_file(file, problem)) return file;
  // As in CMakePresets.json: build/PRESET/bin.
  if (auto file = home.parent_path().parent_path() / "samples/traces" / name;
      std::filesystem::is_regular_file(file, problem))
    return file;
  return {};
}

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
