// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "collector/record/launch.h"
#include "formats/command_line/combinations.h"
#include "formats/command_line/option_values.h"

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

namespace {

/// As CLI11 wants it of a check, which names the option itself; empty if there is none.
template <class Value>
std::string problem_of(const Result<Value>& parsed) {
  if (parsed) return {};
  Error error = parsed.error();
  error.where.clear();
  return error.message();
}

}  // namespace

void add_recording_options(CLI::App& app, agent::Options& options) {
  app.add_option("--backend", "How to observe driver calls: auto, cupti or interpose [auto]")
      ->check(one_of({"auto", "cupti", "interpose"}))
      ->each([&options](const std::string& text) {
        options.backend = text == "auto"    ? agent::BackendChoice::automatic
                          : text == "cupti" ? agent::BackendChoice::cupti
                                            : agent::BackendChoice::interpose;
      });
  add_whole_number(app, "--depth", options.depth, {0, 1024},
                   "Maximum native frames per stack; 0 records no stacks [64]");
  add_whole_number(app, "--ring-events", options.ring_events, {64, 1U << 24U},
                   "Events buffered in memory per thread [65536]");
  app.add_option("--when-full", "When the buffer is full: drop (count the event as lost) or block (wait) [drop]")
      ->check(one_of({"drop", "block"}))
      ->each([&options](const std::string& text) {
        options.when_full = text == "drop" ? agent::WhenFull::drop : agent::WhenFull::block;
      });
  add_whole_number(
      app, "--sample-ms",
      [&options](std::uint64_t number) { options.sample_period = std::chrono::milliseconds(number); }, {0, 3'600'000},
      "Milliseconds between samples of device memory; 0 disables sampling [100]");
  app.add_option("--mode", "Permissions of the trace in octal; 640 lets your group read it [600]")
      ->check([](const std::string& text) {
        return agent::parse_mode(text) ? std::string() : "'" + text + "' is not octal digits from 600 to 777";
      })
      ->each([&options](const std::string& text) { options.mode = agent::parse_mode(text).value_or(options.mode); });
  app.add_option_function<std::string>(
         "--flight", [&options](const std::string& text) { options.flight = *agent::parse_flight(text); },
         "Flight recorder: keep only the latest events, by size (256MiB), time (10min) or both (256MiB,10min); older "
         "ones are summed up")
      ->check([](const std::string& text) { return problem_of(agent::parse_flight(text)); });
  app.add_option_function<std::string>(
         "--when", [&options](const std::string& text) { static_cast<void>(agent::parse_when(text, options.dumps)); },
         "With --flight: also write a dump when a device is this full (95%) or its used memory grows this fast "
         "(+2GiB/min)")
      ->check([](const std::string& text) {
        agent::DumpOptions dumps;
        return problem_of(agent::parse_when(text, dumps));
      });
  app.add_option_function<std::string>(
         "--dump-signal",
         [&options](const std::string& text) { options.dumps.signal = *agent::parse_dump_signal(text); },
         "With --flight: signal that triggers a dump: USR1, USR2, a real-time signal's number, or none [USR2]")
      ->check([](const std::string& text) {
        return agent::parse_dump_signal(text) ? std::string()
                                              : "'" + text + "' is not USR1, USR2, a real-time signal's number or none";
      });
  add_whole_number(app, "--dumps", options.dumps.kept, {1, 1000},
                   "With --flight: number of dumps to keep; a new one replaces the oldest [8]");
  app.add_flag_callback(
      "--show-secrets", [&options] { options.mask = false; },
      "Keep arguments that look like secrets (--token X, PASSWORD=X) in the trace");
  app.add_flag_callback(
      "--no-torch", [&options] { options.torch = false; }, "Do not record PyTorch's tensors");
  app.add_flag_callback(
      "--no-python", [&options] { options.python = false; }, "Do not record Python frames");
  app.add_flag_callback(
      "--no-holders", [&options] { options.holders = false; },
      "With --flight: leave what keeps the memory, in Python, out of dumps");
  only_with(app, {"--when", "--dump-signal", "--dumps", "--no-holders"}, {"--flight"});
}

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
