// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/injector.h"

#include <elf.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "collector/attach/process.h"

namespace memreel::attach {
namespace {

namespace fs = std::filesystem;

constexpr const char* start_under_memreel =
    "start it with memreel record, or with memreel record --dormant to attach later";

Error refused(pid_t process, std::string what, std::string remedy) {
  return {.what = std::move(what), .where = process_name(process), .remedy = std::move(remedy)};
}

std::string link_of(pid_t process, const char* link) {
  std::error_code problem;
  return fs::read_symlink("/proc/" + std::to_string(process) + "/" + link, problem).string();
}

/// The first number in a line of /proc/PID/status.
std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t")); }

bool has_capability_to_trace() {
  constexpr unsigned sys_ptrace = 19;  // CAP_SYS_PTRACE
  const std::string effective = status_field(::getpid(), "CapEff");
  return !effective.empty() && ((std::stoull(effective, nullptr, 16) >> sys_ptrace) & 1U) != 0;
}

Result<void> check_program(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/exe", std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return {};  // whoever may not read it may not trace
  if (std::memcmp(static_cast<const unsigned char*>(header.e_ident), ELFMAG, SELFMAG) != 0) return {};
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return refused(process, "is a 32-bit program", "use a 64-bit build");
#if defined(__x86_64__)
  constexpr Elf64_Half own = EM_X86_64;
#else
  constexpr Elf64_Half own = EM_AARCH64;
#endif
  if (header.e_machine != own)
    return refused(process, "is built for another processor", "use memreel built for that processor");
  return {};
}

bool has_libc(const std::string& maps) {
  return maps.find("libc.so.6") != std::string::npos || maps.find("/libc-2.") != std::string::npos;
}

/// Between exec and main: the dynamic linker is mapped, but has not mapped the C library yet.
bool is_starting(const std::string& maps) {
  return !has_libc(maps) && (maps.find("/ld-linux-") != std::string::npos || maps.find("/ld-2.") != std::string::npos);
}

/// /proc/PID/maps; for a process that is starting, as soon as it has started, or after two seconds.
std::optional<std::string> maps_once_started(pid_t process) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  for (;;) {
    auto maps = read_proc(process, "maps");
    if (!maps || !is_starting(*maps) || std::chrono::steady_clock::now() >= deadline) return maps;
    std::this_thread::sleep_for(10ms);
  }
}

Result<void> check_libraries(pid_t process) {
  const auto maps = maps_once_started(process);
  if (!maps) return {};
  if (maps->empty()) return refused(process, "has no memory of its own: it is a kernel thread or is exiting", "");
  if (maps->find("/ld-musl-") != std::string::npos)
    return refused(process, "uses musl, which memreel does not support", "");
  if (is_starting(*maps)) return refused(process, "is still loading its libraries", "attach again once it runs");
  if (!has_libc(*maps))
    return refused(process, "is statically linked, so it can't load memreel's library", "link it dynamically");
  return {};
}

/// The process's own AT_SECURE: the agent would refuse to record in it.
bool has_raised_privileges(pid_t process) {
  const std::string vector = read_proc(process, "auxv").value_or("");
  std::array<std::uint64_t, 2> entry{};
  for (std::size_t at = 0; at + sizeof entry <= vector.size(); at += sizeof entry) {
    std::memcpy(entry.data(), vector.data() + at, sizeof entry);
    if (entry[0] == AT_SECURE) return entry[1] != 0;
  }
  return false;
}

}  // namespace

std::string process_name(pid_t process) { return "process " + std::to_string(process); }

int yama_level() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int level = -1;
  return file >> level ? level : -1;
}

Result<void> check_alive(pid_t process) {
  if (process == ::getpid()) return refused(process, "is memreel itself", "give the PID of the program");
  const std::string state = process > 0 ? status_field(process, "State") : std::string{};
  if (state.empty()) return refused(process, "no such process", "find the PID with ps or nvidia-smi");
  if (state[0] == 'Z' || state[0] == 'X') return refused(process, "has ended", "");
  return {};
}

Result<void> check_enterable(pid_t process) {
  const std::string owner = first_word(status_field(process, "Uid"));
  if (::geteuid() != 0 && owner != std::to_string(::geteuid()))
    return refused(process, "belongs to another user (" + owner + ")", "run memreel as that user, or as root");
  if (status_field(process, "State").starts_with("T "))
    return refused(process, "is stopped", "continue it first (fg, or kill -CONT)");
  if (const std::string tracer = status_field(process, "TracerPid"); tracer != "0" && !tracer.empty()) {
    const std::string name = first_word(read_proc(std::stoi(tracer), "comm").value_or("another program"));
    return refused(process,
                   "is already being traced by process " + tracer + " (" + name.substr(0, name.find('\n')) + ")",
                   "exit the debugger first");
  }
  if (auto program = check_program(process); !program) return program;
  if (has_raised_privileges(process))
    return refused(process, "runs with raised privileges (setuid, setgid or file capabilities)",
                   "run it without them, as the user it switches to");
  if (link_of(process, "ns/mnt") != link_of(::getpid(), "ns/mnt") && !link_of(process, "ns/mnt").empty())
    return refused(process, "runs in a container with its own files", "run memreel inside that container");
  if (auto libraries = check_libraries(process); !libraries) return libraries;
  if (const std::string filter = status_field(process, "Seccomp"); filter == "1" || filter == "2")
    return refused(process, "has a seccomp filter, which could kill it for system calls that memreel makes",
                   start_under_memreel);
  if (status_field(process, "x86_Thread_features").find("shstk") != std::string::npos)
    return refused(process, "runs with shadow stacks, which prevent attaching", start_under_memreel);
  if (const int level = yama_level(); level >= 2 && (level >= 3 || !has_capability_to_trace()))
    return explain_refused_trace(process, EPERM, level);
  return {};
}

Error explain_refused_trace(pid_t process, int reason, int level) {
  if (reason == ESRCH) return refused(process, "has ended", "");
  if (reason != EPERM && reason != EACCES)
    return refused(process, "can't be traced: " + std::generic_category().message(reason), start_under_memreel);
  switch (level) {
    case 1:
      return refused(
          process, "can only be traced by its parent (kernel.yama.ptrace_scope is 1)",
          "run memreel attach as root, set sysctl kernel.yama.ptrace_scope=0, or " + std::string(start_under_memreel));
    case 2:
      return refused(process, "can only be traced by root (kernel.yama.ptrace_scope is 2)",
                     "run memreel attach as root, or " + std::string(start_under_memreel));
    case 3:
      return refused(process, "can't be traced until the next reboot (kernel.yama.ptrace_scope is 3)",
                     start_under_memreel);
    default:
      return refused(process, "can't be traced: the system does not allow it",
                     "in a container, give it CAP_SYS_PTRACE; or " + std::string(start_under_memreel));
  }
}

}  // namespace memreel::attach
