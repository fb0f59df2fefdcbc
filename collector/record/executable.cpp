// SPDX-License-Identifier: Apache-2.0
#include "collector/record/executable.h"

#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace memreel::record {

std::filesystem::path sibling(std::string_view program) {
  std::error_code problem;
  return std::filesystem::read_symlink("/proc/self/exe", problem).parent_path() / program;
}

Result<pid_t> start_companion(std::string_view program, std::vector<std::string> arguments, const Streams& streams) {
  const std::string path = sibling(program).string();
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  const auto connect = [&](int to, int from) {
    if (from >= 0)
      ::posix_spawn_file_actions_adddup2(&files, from, to);
    else
      ::posix_spawn_file_actions_addopen(&files, to, "/dev/null", O_RDWR, 0);
  };
  connect(STDIN_FILENO, streams.input);
  connect(STDOUT_FILENO, streams.output);
  connect(STDERR_FILENO, streams.errors);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int refused = ::posix_spawn(&process, path.c_str(), &files, &attributes, words.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (refused == 0) return process;
  return Error{.what = "can't start it: " + std::generic_category().message(refused),
               .where = path,
               .remedy = "reinstall memreel"};
}

namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr Elf64_Half own_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half own_machine = EM_AARCH64;
#endif

/// 0 if `path` can be executed, else errno.
int refusal_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

bool is_privileged(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  const bool others = ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid()) ||
                      ((status.st_mode & S_ISGID) != 0 && status.st_gid != ::getegid());
  return others || (::geteuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0);
}

/// For an ELF file; anything else (a script) counts as open.
Closed class_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return Closed::no;
  if (std::memcmp(static_cast<const unsigned char*>(header.e_ident), ELFMAG, SELFMAG) != 0) return Closed::no;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != own_machine) return Closed::other_class;
  for (Elf64_Half i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + std::uint64_t{i} * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return Closed::no;
    if (segment.p_type == PT_INTERP) return Closed::no;
  }
  return Closed::is_static;
}

Error refused(const std::string& name, int reason) {
  return {.what = "can't run it: " + std::generic_category().message(reason),
          .where = name,
          .remedy = reason == ENOENT ? "check the name, or give its path" : ""};
}

}  // namespace

Result<Executable> find_executable(const std::string& name, const std::string& search) {
  Executable found;
  if (name.find('/') != std::string::npos) {
    if (const int reason = refusal_of(name); reason != 0) return refused(name, reason);
    found.path = name;
  } else {
    int reason = ENOENT;
    std::istringstream directories(search);
    for (std::string directory; found.path.empty() && std::getline(directories, directory, ':');) {
      const fs::path candidate = fs::path(directory.empty() ? "." : directory) / name;
      const int refusal = name.empty() ? ENOENT : refusal_of(candidate);
      if (refusal == 0) found.path = candidate;
      if (refusal == EACCES) reason = EACCES;
    }
    if (found.path.empty()) return refused(name, reason);
  }
  found.closed = is_privileged(found.path) ? Closed::privileged : class_of(found.path);
  return found;
}

std::string explanation_of(const Executable& executable) {
  const std::string name = executable.path.filename().string();
  switch (executable.closed) {
    case Closed::no:
      return {};
    case Closed::is_static:
      return name + " is statically linked, so memreel can only record the programs it starts";
    case Closed::privileged:
      return name +
             " is setuid, setgid or has file capabilities, so memreel can only record the programs it starts; run it "
             "without them, as the user it switches to";
    case Closed::other_class:
      return name + " is built for another processor; it runs, but can't be recorded";
  }
  return {};
}

}  // namespace memreel::record
