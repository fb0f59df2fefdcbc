// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/injector.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "collector/attach/control_socket.h"
#include "collector/attach/process.h"
#include "formats/model/paths.h"

namespace memreel::attach {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int first_minor = 14;

/// 14 of ".../python3.14" or ".../libpython3.14.so.1.0" among the process's files.
std::optional<int> python_of(pid_t process) {
  const std::string maps = read_proc(process, "maps").value_or("");
  for (std::string_view rest = maps; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::string_view file = base_name(line);
    for (const std::string_view name : {"python3.", "libpython3."}) {
      if (line.find('/') == std::string_view::npos || !file.starts_with(name)) continue;
      int minor = 0;
      const std::string_view number = file.substr(name.size());
      const auto end = std::from_chars(number.data(), number.data() + number.size(), minor);
      if (end.ec == std::errc()) return minor;
    }
  }
  return std::nullopt;
}

/// Text as a Python literal.
std::string quoted(const std::string& text) {
  std::string literal = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + "'";
}

/// A file for the other process to read, removed by the destructor.
class Script {
 public:
  explicit Script(const std::string& text) {
    std::error_code problem;
    std::string pattern = (fs::temp_directory_path(problem) / "memreel-attach-XXXXXX.py").string();
    const int file = ::mkostemps(pattern.data(), 3, O_CLOEXEC);
    if (file < 0) return;
    if (::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fchmod(file, 0644) == 0)
      path_ = pattern;
    ::close(file);
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  ~Script() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Whether a program exited with 0. Its output is discarded.
bool succeeds(const std::vector<std::string>& command) {
  posix_spawn_file_actions_t files{};
  ::posix_spawn_file_actions_init(&files);
  for (const int file : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&files, file, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  arguments.push_back(nullptr);
  pid_t child = 0;
  const bool started = ::posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ) == 0;
  ::posix_spawn_file_actions_destroy(&files);
  int status = 0;
  return started && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The script that the interpreter runs. It uses its own thread, as signal handlers run in the main thread: exceptions
/// raised by them belong to the program, and loading takes a while.
std::string invitation(const fs::path& library) {
  return "def load():\n"
         "    try:\n"
         "        import ctypes\n"
         "        ctypes.CDLL(" +
         quoted(library.string()) +
         ").memreel_agent_invite()\n"
         "    except Exception:\n"
         "        pass\n"
         "try:\n"
         "    import _thread\n"
         "    _thread.start_new_thread(load, ())\n"
         "except Exception:\n"
         "    pass\n";
}

/// Whether `interpreter`, a program, could submit a request to run `script` to the one in `process`.
bool asks(const std::string& interpreter, pid_t process, const std::string& script) {
  return succeeds({interpreter, "-I", "-S", "-c",
                   "import sys; sys.remote_exec(" + std::to_string(process) + ", " + quoted(script) + ")"});
}

/// The interpreter that submitted the request: of the same version, as remote_exec requires.
std::optional<std::string> first_that_asks(pid_t process, int minor, const std::string& script) {
  const std::string own = "/proc/" + std::to_string(process) + "/exe";
  const std::string in_path = "python3." + std::to_string(minor);
  std::error_code problem;
  if (fs::read_symlink(own, problem).filename().string().starts_with("python") && asks(own, process, script))
    return own;
  if (asks(in_path, process, script)) return in_path;
  return std::nullopt;
}

}  // namespace

bool enter_through_python(pid_t process, const fs::path& library, std::chrono::milliseconds limit) {
  const auto minor = python_of(process);
  if (!minor || *minor < first_minor) return false;
  const Clock::time_point deadline = Clock::now() + limit;
  const Script script(invitation(library));
  if (script.path().empty()) return false;
  const auto interpreter = first_that_asks(process, *minor, script.path());
  if (!interpreter) return false;
  while (Clock::now() < deadline) {
    if (ask(process, {.word = "status", .fields = {}}, std::chrono::seconds(1)).reached) return true;
    const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  // Python would report, in the program's name, that the script is missing. A request can't be withdrawn, but it can be
  // replaced.
  asks(*interpreter, process, "/dev/null");
  return false;
}

}  // namespace memreel::attach
