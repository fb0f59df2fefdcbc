// SPDX-License-Identifier: Apache-2.0
#include "analyzer/policies/own_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>

namespace memreel {
namespace {

constexpr int done_code = 0, out_of_memory_code = 3;

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

[[noreturn]] void be_child(const std::function<std::string(OwnProgress&)>& work, OwnProgress& progress, int pipe,
                           pid_t parent) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // our own output is a document
  int code = 1;
  try {
    const std::string result = work(progress);
    const std::uint64_t size = result.size();  // tells a whole result from a process that ended itself
    if (write_all(pipe, {reinterpret_cast<const char*>(&size), sizeof size}) && write_all(pipe, result))
      code = done_code;
  } catch (const std::bad_alloc&) {
    code = out_of_memory_code;
  } catch (...) {  // NOLINT(bugprone-empty-catch): the exit code says it
  }
  std::fflush(nullptr);
  ::_exit(code);
}

/// Returns whether there was anything. `file` does not block.
bool read_available(int file, std::string& into) {
  std::array<char, 65536> piece{};
  bool any = false;
  while (true) {
    const ssize_t count = ::read(file, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return any;
    into.append(piece.data(), static_cast<std::size_t>(count));
    any = true;
  }
}

std::string name_of_signal(int number) {
#ifdef __linux__
  if (const char* const name = ::sigabbrev_np(number)) return "SIG" + std::string(name);
#endif
  return "signal " + std::to_string(number);
}

}  // namespace

Result<std::string> in_own_process(const std::function<std::string(OwnProgress&)>& work,
                                   std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  void* const shared = ::mmap(nullptr, sizeof(OwnProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  const std::unique_ptr<void, void (*)(void*)> unmapped(shared,
                                                        [](void* page) { ::munmap(page, sizeof(OwnProgress)); });
  OwnProgress& progress = *new (shared) OwnProgress;
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{.what = std::generic_category().message(errno)};
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::cout.flush();  // otherwise the child may write it again
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    be_child(work, progress, ends[1], parent);
  }
  const int problem = errno;
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    return Error{.what = "no process: " + std::generic_category().message(problem)};
  }
  std::string output;
  int status = 0;
  bool late = false;
  std::uint64_t calls = 0;
  auto answered = Clock::now();
  // Not until the pipe's end: a process that another thread forks meanwhile keeps it open.
  for (bool ended = false; !ended;) {
    pollfd pipe{.fd = ends[0], .events = POLLIN, .revents = 0};
    ::poll(&pipe, 1, 20);
    ended = ::waitpid(process, &status, WNOHANG) == process;
    const std::uint64_t now = progress.calls.load(std::memory_order_relaxed);
    if (read_available(ends[0], output) || now != calls) answered = Clock::now();
    calls = now;
    if (ended || late || Clock::now() - answered < patience) continue;
    late = true;
    ::kill(process, SIGKILL);
  }
  ::close(ends[0]);
  std::uint64_t size = 0;
  if (output.size() >= sizeof size) {
    std::memcpy(&size, output.data(), sizeof size);
    output.erase(0, sizeof size);
    if (output.size() == size && WIFEXITED(status) && WEXITSTATUS(status) == done_code) return output;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory_code) throw std::bad_alloc();
  const std::uint64_t requests = progress.requests;
  const std::string where = requests == 0 ? "" : " (at request " + std::to_string(requests) + ")";
  if (late)
    return Error{.what = "it did not answer for " +
                         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) + " s" +
                         where};
  if (WIFSIGNALED(status)) return Error{.what = "it crashed: " + name_of_signal(WTERMSIG(status)) + where};
  return Error{.what = "it ended the process, with exit code " + std::to_string(WEXITSTATUS(status)) + where};
}

}  // namespace memreel
