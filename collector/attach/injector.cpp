// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/injector.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <span>
#include <system_error>

#include "collector/attach/bootstrap.h"
#include "collector/attach/control_socket.h"
#include "collector/attach/process.h"
#include "collector/attach/processor.h"
#include "formats/model/stack_text.h"

namespace memreel::attach {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* visit_function = "memreel_agent_visit";

/// While a thread runs with borrowed registers, only SIGKILL can end us.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    ::prctl(PR_SET_TIMERSLACK, 1);        // a thread is paused for as long as we wait
    ::setpriority(PRIO_PROCESS, 0, -20);  // where we may
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;
  ~Undisturbed() {
    ::setpriority(PRIO_PROCESS, 0, priority_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_{};
  int priority_ = ::getpriority(PRIO_PROCESS, 0);
};

void pause_for(std::chrono::microseconds time) {
  const timespec pause{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(time).count()};
  ::nanosleep(&pause, nullptr);
}

/// What is looked up before any thread is stopped.
struct Ground {
  BootstrapFunctions functions;
  std::uint64_t system_call = 0;      // address of instructions that make one and return
  std::uint64_t handlers_return = 0;  // SafePlaces::handlers_return()
};

Result<Ground> survey(const RemoteProcess& process, const SafePlaces& places) {
  const std::vector<Mapping> mappings = process.mappings();
  std::vector<std::uint64_t> libraries;
  // Since glibc 2.34 everything is in the first one.
  for (const char* const file : {"libc.so.6", "libpthread.so.0", "libdl.so.2"})
    if (const auto base = base_of(mappings, file)) libraries.push_back(*base);
  for (const Mapping& mapping : mappings)  // as the files were called until 2.33
    for (const char* const name : {"libc-2.", "libpthread-2.", "libdl-2."})
      if (mapping.offset == 0 && mapping.file().starts_with(name)) libraries.push_back(mapping.begin);

  const auto find = [&](const char* name) -> std::uint64_t {
    for (const std::uint64_t library : libraries)
      if (const std::uint64_t found = exported_function(process, library, name); found != 0) return found;
    return 0;
  };
  Ground ground{.functions = {.pthread_create = find("pthread_create"),
                              .dlopen = find("dlopen"),
                              .dlsym = find("dlsym"),
                              .dlerror = find("dlerror"),
                              .errno_location = find("__errno_location")}};
  for (const auto& [name, address] : {std::pair{"pthread_create", ground.functions.pthread_create},
                                      {"dlopen", ground.functions.dlopen},
                                      {"dlsym", ground.functions.dlsym},
                                      {"dlerror", ground.functions.dlerror},
                                      {"__errno_location", ground.functions.errno_location}})
    if (address == 0)
      return Error{.what = "its C library has no " + std::string(name),
                   .where = "process " + std::to_string(process.number()),
                   .remedy = "start it with memreel record"};

  const std::uint64_t begin = find("getpid");
  std::array<std::byte, 64> code{};
  if (begin != 0 && process.read(begin, code))
    if (const auto found = find_system_call(code)) ground.system_call = begin + *found;
  ground.handlers_return = places.handlers_return();
  if (ground.system_call == 0 || ground.handlers_return == 0)
    return Error{.what = "uses an unsupported C library",
                 .where = "process " + std::to_string(process.number()),
                 .remedy = "start it with memreel record"};
  return ground;
}

/// A thread stopped at a safe place, and its state there. Whenever it runs for us, it has a way back (bootstrap.h) that
/// does not depend on us; only restoring its exact state does.
class Borrowed {
 public:
  Borrowed(const RemoteProcess& process, pid_t thread) : process_(&process), thread_(thread) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (away_) put_back(Clock::now() + std::chrono::seconds(1));
  }

  /// False if it is not, or no longer, at a place where it may be interrupted.
  bool take(const SafePlaces& places, Clock::time_point deadline) {
    seen_ = seen_call(process_->number(), thread_.number());
    if (!thread_.stop(deadline)) return false;
    const auto state = thread_.state();
    if (!state) return false;
    original_ = *state;
    // Calls that the program would see as interrupted are restarted; the kernel restarts the others itself.
    if (call_result(state->registers) == -EINTR) original_.registers = with_call_begun_again(state->registers, seen_);
    if (places.is_safe(state->registers)) return true;
    thread_.set_registers(original_.registers);
    return false;
  }

  const ThreadState& original() const { return original_; }
  const RemoteProcess& process() const { return *process_; }

  /// Makes the thread execute one system call; returns its result, a negative errno on failure, or none.
  std::optional<std::int64_t> call(const Ground& ground, long number, std::span<const std::uint64_t, 6> arguments,
                                   Clock::time_point deadline) {
    const WayBack way = make_way_back(original_, ground.handlers_return);
    if (!process_->write(way.address, way.bytes)) return std::nullopt;
    low_ = way.address;
    size_ = way.bytes.size();
    const user_regs_struct registers =
        at_call(original_.registers, ground.system_call, way.address, ground.handlers_return, number, arguments);
    if (!go_to(registers) || !thread_.set_signal_mask(~0ULL)) return std::nullopt;
    if (!thread_.run_to_system_call(deadline) || !thread_.run_to_system_call(deadline)) return std::nullopt;
    const auto state = thread_.state();
    if (!state || !thread_.stop(deadline)) return std::nullopt;
    return call_result(state->registers);
  }

  /// Starts the bootstrap.
  bool send(const Bootstrap& bootstrap) {
    low_ = bootstrap.argument;
    size_ = Bootstrap::page_size;
    const user_regs_struct registers =
        at_function(original_.registers, bootstrap.entry, bootstrap.stack, bootstrap.argument);
    return go_to(registers) && thread_.set_signal_mask(~0ULL) && thread_.resume();
  }

  /// Unless it has already returned: it does not wait for us forever.
  bool put_back(Clock::time_point deadline) {
    away_ = false;
    if (!thread_.stop(deadline)) return false;
    const auto state = thread_.state();
    const bool is_back = state && stack_pointer(state->registers) - low_ > size_;
    if (!state || is_back) return is_back;
    ThreadState restored = original_;
    restored.registers = with_sleep_continued(original_.registers, seen_);
    return thread_.set_state(restored);
  }

 private:
  bool go_to(const user_regs_struct& registers) {
    away_ = thread_.set_registers(registers);
    return away_;
  }

  const RemoteProcess* process_;
  TracedThread thread_;
  std::optional<SeenCall> seen_;  // the call it was in
  ThreadState original_;
  std::uint64_t low_ = 0, size_ = 0;  // the stack it uses while borrowed
  bool away_ = false;
};

/// Makes the thread allocate a page for the bootstrap: its address, or a negative errno; none if the thread ended or
/// did not run in time.
std::optional<std::int64_t> map_page(Borrowed& thread, const Ground& ground, Clock::time_point deadline) {
  const std::array<std::uint64_t, 6> page_wanted{
      0, Bootstrap::page_size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, ~0ULL, 0};
  return thread.call(ground, SYS_mmap, page_wanted, deadline);
}

/// Makes the thread start another one that loads the agent. Returns the address of the news.
Result<std::uint64_t> run_bootstrap(Borrowed& thread, std::int64_t page, const Ground& ground,
                                    const std::string& library, Clock::time_point deadline) {
  const auto failed = [&](std::string what) {
    return Error{.what = std::move(what),
                 .where = "process " + std::to_string(thread.process().number()),
                 .remedy = "try again, or start it with memreel record"};
  };
  if (page < 0) return failed("could not allocate memory for memreel (error " + std::to_string(-page) + ")");

  const auto address = static_cast<std::uint64_t>(page);
  const Bootstrap bootstrap = make_bootstrap(address, ground.functions, thread.original(), library, visit_function);
  if (!thread.process().write(address, bootstrap.page)) return failed("does not allow memory writes");
  if (!thread.send(bootstrap)) return failed("exited");
  std::optional<BootstrapNews> news;
  do {
    pause_for(std::chrono::microseconds(20));
    news = thread.process().read<BootstrapNews>(bootstrap.news);
  } while (news && news->started == 0 && Clock::now() < deadline);
  if (!thread.put_back(Clock::now() + std::chrono::seconds(1)) || !news) return failed("exited");
  constexpr std::uint64_t yes = 1;
  thread.process().write(bootstrap.released, std::as_bytes(std::span(&yes, 1)));
  if (news->started == 0) return failed("did not start a thread in time; its state was restored");
  if (news->thread_refused != 0)
    return failed("could not start a thread (error " + std::to_string(news->thread_refused) + ")");
  return bootstrap.news;
}

/// Waits until the agent listens, or could not be loaded.
Result<void> await_arrival(const RemoteProcess& process, std::uint64_t news, Clock::time_point deadline) {
  const Error late{.what = "did not load memreel's library in time; it may be busy loading another one",
                   .where = "process " + std::to_string(process.number()),
                   .remedy = "run memreel attach again"};
  while (Clock::now() < deadline) {
    if (ask(process.number(), {.word = "status", .fields = {}}, std::chrono::seconds(1)).reached) return {};
    const auto told = process.read<BootstrapNews>(news);
    if (told && told->failed != 0)
      return Error{.what = "could not load memreel's library: " + process.read_text(told->failure),
                   .where = "process " + std::to_string(process.number())};
    if (!start_time(process.number())) return explain_refused_trace(process.number(), ESRCH);
    pause_for(std::chrono::milliseconds(1));
  }
  return late;
}

}  // namespace

Result<Injected> inject(pid_t process, const std::filesystem::path& library, std::chrono::milliseconds limit) {
  if (auto enterable = check_enterable(process); !enterable) return enterable.error();
  const Clock::time_point deadline = Clock::now() + limit;
  auto remote = RemoteProcess::open(process);
  if (!remote) return explain_refused_trace(process, EPERM);
  const SafePlaces places(*remote);
  const auto ground = survey(*remote, places);
  if (!ground) return ground.error();

  const Undisturbed undisturbed;
  while (Clock::now() < deadline) {
    for (const pid_t thread : places.candidates()) {
      const Clock::time_point start = Clock::now();
      if (const auto refused = TracedThread::seize(thread)) {
        if (*refused == ESRCH) continue;  // it ended
        return explain_refused_trace(process, *refused);
      }
      Result<std::uint64_t> news = std::uint64_t{0};
      {
        Borrowed borrowed(*remote, thread);
        // A thread sleeping uninterruptibly in the kernel is skipped soon.
        if (!borrowed.take(places, std::min(deadline, start + std::chrono::milliseconds(20)))) continue;
        const Clock::time_point until = std::min(deadline, start + std::chrono::seconds(2));
        // On an overloaded machine a thread may not run in time: it is released, and has done nothing yet.
        const auto page = map_page(borrowed, *ground, until);
        if (!page) continue;
        news = run_bootstrap(borrowed, *page, *ground, library.string(), until);
      }
      const Injected injected{.pause = Clock::now() - start};
      if (!news) return news.error();
      if (auto arrived = await_arrival(*remote, *news, deadline); !arrived) return arrived.error();
      return injected;
    }
    if (!start_time(process)) return explain_refused_trace(process, ESRCH);
    pause_for(std::chrono::milliseconds(2));
  }
  return Error{.what = "no thread could be interrupted safely",
               .where = "process " + std::to_string(process),
               .remedy = "try again, or raise --time-limit"};
}

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
