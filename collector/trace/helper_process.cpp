// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <utility>

#include "formats/model/files.h"

namespace memreel::agent {
namespace {

Error refused(const std::string& what, int reason) {
  return {.what = what + ": " + std::generic_category().message(reason), .where = {}, .remedy = {}};
}

/// Two small stacks, for the processes between the program and the helper, which share the program's memory until they
/// exit.
class Stacks {
 public:
  Stacks() : memory_(::mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, 2 * size);
  }
  explicit operator bool() const { return memory_ != MAP_FAILED; }
  void* top(std::size_t number) const { return static_cast<std::byte*>(memory_) + (number + 1) * size; }

 private:
  static constexpr std::size_t size = std::size_t{64} << 10U;
  void* memory_;
};

struct Start {
  const char* program;
  char* const* arguments;
  int null, file, report, more;
  void* stack;
  int problem = 0;
};

/// In the helper, until exec. Only system calls: the memory is the program's. Signals stay blocked, so that none of the
/// program's handlers runs here; the helper unblocks them.
int become_helper(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  char* no_environment = nullptr;
  const bool placed = ::dup2(start.null, STDIN_FILENO) >= 0 && ::dup2(start.null, STDOUT_FILENO) >= 0 &&
                      ::dup2(start.file, HelperProcess::input) >= 0 &&
                      ::dup2(start.report, HelperProcess::report) >= 0 &&
                      ::dup2(start.more, HelperProcess::more_input) >= 0;
  if (placed) {
#if defined(SYS_close_range)
    ::syscall(SYS_close_range, HelperProcess::more_input + 1, ~0U, 0);  // else the helper closes them
#endif
    ::execve(start.program, start.arguments, &no_environment);
  }
  start.problem = errno;
  ::_exit(127);
}

/// The intermediate process: when it exits, the helper becomes an orphan.
int start_helper(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  if (::clone(become_helper, start.stack, CLONE_VM | CLONE_VFORK | SIGCHLD, argument) < 0) start.problem = errno;
  ::_exit(0);
}

constexpr int wait_for_unsignalled = static_cast<int>(__WCLONE);

bool is_given_orphans() {
  int subreaper = 0;
  return ::getpid() == 1 || (::prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper != 0);
}

}  // namespace

Result<void> HelperProcess::start(const std::vector<std::string>& arguments, int file) {
  forget();
  if (is_given_orphans()) return Error{.what = "this process adopts orphaned processes", .where = {}, .remedy = {}};
  const Stacks stacks;
  std::array<int, 2> pipe_ends{};
  if (!stacks || ::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return refused("can't start a process", errno);
  std::array<int, 2> more_ends{-1, -1};
  if (::pipe2(more_ends.data(), O_CLOEXEC) != 0) {
    const int reason = errno;
    for (const int end : pipe_ends) ::close(end);
    return refused("can't start a process", reason);
  }
  constexpr int room = 1 << 19;
  ::fcntl(more_ends[1], F_SETPIPE_SZ, room);
  ::fcntl(more_ends[1], F_SETFL, O_NONBLOCK);
  // Above the descriptors that the helper gets.
  for (int& end : pipe_ends) end = move_up(end);
  for (int& end : more_ends) end = move_up(end);
  const int null = move_up(::open("/dev/null", O_RDWR | O_CLOEXEC));
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  words.push_back(nullptr);
  Start start{.program = words.front(),
              .arguments = words.data(),
              .null = null,
              .file = file,
              .report = pipe_ends[1],
              .more = more_ends[0],
              .stack = stacks.top(1)};
  // As no signal is sent when it exits, only a wait() that requests such children sees it.
  const pid_t between = ::clone(start_helper, stacks.top(0), CLONE_VM | CLONE_VFORK, &start);
  if (between < 0) start.problem = errno;
  while (between > 0 && ::waitpid(between, nullptr, wait_for_unsignalled) < 0 && errno == EINTR) {
  }
  ::close(null);
  ::close(pipe_ends[1]);
  ::close(more_ends[0]);
  if (start.problem != 0) {
    ::close(pipe_ends[0]);
    ::close(more_ends[1]);
    return refused("can't run " + arguments.front(), start.problem);
  }
  alive_ = pipe_ends[0];
  identity_ = identity_of(alive_);
  more_ = more_ends[1];
  more_identity_ = identity_of(more_);
  reported_.clear();
  return {};
}

void HelperProcess::finish_input(std::string_view text) {
  if (more_ < 0 || identity_of(more_) != more_identity_) return;
  while (!text.empty()) {
    const ssize_t size = ::write(more_, text.data(), text.size());
    if (size <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  ::close(more_);
  more_ = -1;
}

bool HelperProcess::has_ended(int milliseconds, std::string& reported) {
  if (alive_ < 0) return true;
  pollfd waiting{.fd = alive_, .events = POLLIN, .revents = 0};
  while (identity_of(alive_) != identity_ || ::poll(&waiting, 1, milliseconds) > 0) {
    std::array<char, 512> bytes{};
    const bool is_ours = identity_of(alive_) == identity_;
    const ssize_t size = is_ours ? ::read(alive_, bytes.data(), bytes.size()) : 0;
    if (size > 0) {
      reported_.append(bytes.data(), static_cast<std::size_t>(size));
      continue;
    }
    reported = std::exchange(reported_, {});
    forget();
    return true;
  }
  return false;
}

void HelperProcess::forget() {
  finish_input({});
  if (alive_ >= 0 && identity_of(alive_) == identity_) ::close(alive_);
  alive_ = -1;
}

}  // namespace memreel::agent
