// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/child_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "formats/model/memory_bound.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

using Clock = std::chrono::steady_clock;

#ifdef MEMREEL_SANITIZED
constexpr bool can_limit_memory = false;  // their shadow memory takes terabytes of address space
#else
constexpr bool can_limit_memory = true;
#endif

constexpr int done_code = 0, out_of_memory_code = 3;

[[noreturn]] void be_child(std::size_t item, int pipe, const ChildLimits& limits, pid_t parent,
                           const std::function<std::string(std::size_t)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  lift_memory_bound();
  if (can_limit_memory) {
    const rlimit memory{limits.memory.count, limits.memory.count};
    setrlimit(RLIMIT_AS, &memory);
  }
  int code = done_code;
  try {
    const std::string output = work(item);
    for (std::string_view rest = output; !rest.empty();) {
      const ssize_t written = write(pipe, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) _exit(1);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  } catch (const std::bad_alloc&) {
    code = out_of_memory_code;
  } catch (...) {
    code = 1;
  }
  _exit(code);
}

std::string failure_of(bool late, int status, const ChildLimits& limits) {
  if (late) return "took longer than " + std::to_string(limits.time.count()) + " s to read";
  if (WIFEXITED(status) && WEXITSTATUS(status) == done_code) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory_code)
    return "takes more than " + text_of(limits.memory) + " of memory to read";
  if (WIFSIGNALED(status)) return "reading it was ended by signal " + std::to_string(WTERMSIG(status));
  return "reading it failed";
}

}  // namespace

struct ChildPool::Child {
  std::size_t item = 0;
  pid_t process = -1;
  int pipe = -1;
  Clock::time_point deadline;
  bool late = false;
  std::string output;
};

ChildPool::ChildPool(const ChildLimits& limits, std::function<std::string(std::size_t)> work,
                     std::function<void(std::size_t, ChildOutcome)> done)
    : limits_(limits), work_(std::move(work)), done_(std::move(done)) {}

ChildPool::~ChildPool() {
  for (const Child& child : children_) {
    kill(child.process, SIGKILL);
    close(child.pipe);
    waitpid(child.process, nullptr, 0);
  }
}

std::size_t ChildPool::size() const { return children_.size(); }

void ChildPool::start(std::size_t item) {
  std::array<int, 2> ends{-1, -1};
  std::fflush(nullptr);  // otherwise the child writes it again
  const pid_t parent = getpid();
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    done_(item, {.output = {}, .failure = "no pipe: " + std::generic_category().message(errno)});
    return;
  }
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    be_child(item, ends[1], limits_, parent, work_);
  }
  close(ends[1]);
  if (process < 0) {
    const int problem = errno;
    close(ends[0]);
    done_(item, {.output = {}, .failure = "no process: " + std::generic_category().message(problem)});
    return;
  }
  children_.push_back({.item = item, .process = process, .pipe = ends[0], .deadline = Clock::now() + limits_.time});
}

void ChildPool::wait(std::chrono::milliseconds most) {
  std::vector<pollfd> pipes;
  Clock::time_point next = Clock::now() + most;
  for (const Child& child : children_) {
    pipes.push_back({.fd = child.pipe, .events = POLLIN, .revents = 0});
    if (!child.late) next = std::min(next, child.deadline);
  }
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  poll(pipes.data(), pipes.size(), static_cast<int>(std::clamp<std::int64_t>(patience, 0, 60'000)));
  for (std::size_t i = children_.size(); i-- > 0;) {
    Child& child = children_[i];
    if (!child.late && Clock::now() >= child.deadline) {
      child.late = true;
      kill(child.process, SIGKILL);
    }
    if (pipes[i].revents != 0 && !read_some(child)) finish(i);
  }
}

/// Returns false at the end.
bool ChildPool::read_some(Child& child) {
  std::array<char, 65536> piece{};
  const ssize_t count = read(child.pipe, piece.data(), piece.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  child.output.append(piece.data(), static_cast<std::size_t>(count));
  return count > 0;
}

void ChildPool::finish(std::size_t i) {
  Child child = std::move(children_[i]);
  children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
  close(child.pipe);
  int status = 0;
  while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  done_(child.item, {.output = std::move(child.output), .failure = failure_of(child.late, status, limits_)});
}

void in_child_processes(std::size_t count, unsigned jobs, const ChildLimits& limits,
                        const std::function<std::string(std::size_t)>& work,
                        const std::function<void(std::size_t, ChildOutcome)>& done) {
  if (jobs == 0) jobs = std::max(1U, std::thread::hardware_concurrency());
  ChildPool pool(limits, work, done);
  for (std::size_t next = 0; next < count || pool.size() > 0;) {
    while (next < count && pool.size() < jobs) pool.start(next++);
    if (pool.size() > 0) pool.wait(std::chrono::minutes(1));
  }
}

}  // namespace memreel
