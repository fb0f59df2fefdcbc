// SPDX-License-Identifier: Apache-2.0
#include "collector/record/child.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

namespace memreel::record {
namespace {

/// All signals except those that must keep their meaning for us: our own faults, and the terminal's stop.
sigset_t forwarded_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGTSTP, SIGTTIN, SIGTTOU})
    sigdelset(&set, signal);
  return set;
}

/// The child reports a single number to us: why it could not be started.
[[noreturn]] void become(const Command& command, const sigset_t& mask, int report) {
  for (const auto& [name, value] : command.variables)
    ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): this process has one thread
  std::vector<char*> arguments;
  arguments.reserve(command.arguments.size() + 1);
  for (const std::string& argument : command.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  arguments.push_back(nullptr);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::execv(command.program.c_str(), arguments.data());
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &reason, sizeof reason);
  ::_exit(127);
}

/// Waits, forwarding signals, until the child is gone; returns its wait status.
int accompany(pid_t child, const sigset_t& set) {
  while (true) {
    int status = 0;
    const pid_t changed = ::waitpid(child, &status, WNOHANG | WUNTRACED);
    if (changed == child && !WIFSTOPPED(status)) return status;
    if (changed == child) {
      // The shell must learn of a stop from the terminal, as it continues us. A SIGSTOP is between the child and its
      // sender, who may continue the child alone.
      if (WSTOPSIG(status) != SIGSTOP) {
        ::kill(::getpid(), SIGSTOP);
        ::kill(child, SIGCONT);
      }
      continue;
    }
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&set, &info);
    if (signal < 0 || signal == SIGCHLD) continue;
    // A positive code means the kernel: a key press, which the child's process group received too.
    if (info.si_code <= 0) ::kill(child, signal);
  }
}

}  // namespace

Result<Ending> run_command(const Command& command) {
  const sigset_t set = forwarded_signals();
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &set, &before);
  // An ignored SIGCHLD, inherited from our parent, would discard the child's exit code.
  struct sigaction inherited {};
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &usual, &inherited);

  std::array<int, 2> report{};  // closed by a successful exec
  if (::pipe2(report.data(), O_CLOEXEC) != 0)
    return Error{.what = "can't create a pipe: " + std::generic_category().message(errno)};
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child < 0) return Error{.what = "can't start a process: " + std::generic_category().message(errno)};
  if (child == 0) {
    ::sigaction(SIGCHLD, &inherited, nullptr);
    become(command, before, report[1]);
  }
  ::close(report[1]);
  int reason = 0;
  const bool refused = ::read(report[0], &reason, sizeof reason) == sizeof reason;
  ::close(report[0]);

  const int status = accompany(child, set);
  if (refused) {
    return Error{.what = "can't run it: " + std::generic_category().message(reason),
                 .where = command.program.string(),
                 .remedy = reason == ENOEXEC ? "a script must start with #! and its interpreter" : ""};
  }
  Ending ending{.process = child, .time = std::chrono::steady_clock::now() - start};
  if (WIFSIGNALED(status))
    ending.signal = WTERMSIG(status);
  else
    ending.code = WEXITSTATUS(status);
  return ending;
}

void end_as(const Ending& ending) {
  if (ending.signal == 0) ::_exit(ending.code);
  // The core dump, if any, is the child's.
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::signal(ending.signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, ending.signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(ending.signal);
  ::_exit(128 + ending.signal);
}

}  // namespace memreel::record
