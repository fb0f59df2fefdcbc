// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "collector/attach/process.h"
#include "collector/attach/processor.h"

namespace memreel::attach {
namespace {

void* data_of(std::uintptr_t value) { return reinterpret_cast<void*>(value); }  // NOLINT: ptrace takes numbers so

void pause_briefly() {
  const timespec pause{.tv_sec = 0, .tv_nsec = 20'000};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

std::optional<int> TracedThread::seize(pid_t thread) {
  // Not PTRACE_O_EXITKILL: the program must survive whatever happens to us.
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, data_of(PTRACE_O_TRACESYSGOOD)) == 0) return std::nullopt;
  return errno;
}

TracedThread::~TracedThread() {
  if (gone_) return;
  if (!stopped_ || to_system_call_) stop(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  if (stopped_) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  if (stop_signal_) ::syscall(SYS_tkill, thread_, SIGSTOP);
}

bool TracedThread::stop(Deadline deadline) {
  if (stopped_ && !to_system_call_) return true;
  if (::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) return false;
  if (stopped_ && !resume()) return false;  // without executing an instruction
  return wait_for(Stop::by_us, deadline);
}

bool TracedThread::resume() {
  to_system_call_ = false;
  stopped_ = false;
  return ::ptrace(PTRACE_CONT, thread_, nullptr, nullptr) == 0;
}

bool TracedThread::run_to_system_call(Deadline deadline) {
  to_system_call_ = true;
  stopped_ = false;
  return ::ptrace(PTRACE_SYSCALL, thread_, nullptr, nullptr) == 0 && wait_for(Stop::system_call, deadline);
}

bool TracedThread::wait_for(Stop wanted, Deadline deadline) {
  for (;;) {
    const bool last_look = std::chrono::steady_clock::now() >= deadline;  // at least one, however late we are scheduled
    int status = 0;
    const pid_t changed = ::waitpid(thread_, &status, __WALL | WNOHANG);
    if (changed < 0) {
      gone_ = true;
      return false;
    }
    if (changed == 0) {
      if (last_look) return false;
      pause_briefly();
      continue;
    }
    const Stop stop = take_in(status);
    if (stop == Stop::gone) return false;
    if (stop == wanted) return stopped_ = true;
  }
}

/// Handles a state change of the thread: leaves it in the awaited stop, and passes on any other at once.
TracedThread::Stop TracedThread::take_in(int status) {
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    gone_ = true;
    return Stop::gone;
  }
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  if (signal == (SIGTRAP | 0x80)) return Stop::system_call;
  if (event == PTRACE_EVENT_STOP && signal == SIGTRAP) return Stop::by_us;
  int passed_on = event == 0 ? signal : 0;
  if (event == PTRACE_EVENT_STOP) {
    // It was stopped together with its process, by SIGSTOP or similar, and will be again when detached.
    return Stop::by_us;
  }
  if (passed_on == SIGSTOP) {
    stop_signal_ = true;
    passed_on = 0;
  }
  ::ptrace(to_system_call_ ? PTRACE_SYSCALL : PTRACE_CONT, thread_, nullptr,
           data_of(static_cast<std::uintptr_t>(passed_on)));
  return Stop::none;
}

std::optional<ThreadState> TracedThread::state() const {
  ThreadState state;
  iovec general{.iov_base = &state.registers, .iov_len = sizeof state.registers};
  if (::ptrace(PTRACE_GETREGSET, thread_, data_of(NT_PRSTATUS), &general) != 0) return std::nullopt;
  auto extended = extended_state(thread_);
  if (!extended) return std::nullopt;
  state.extended = std::move(*extended);
  if (::ptrace(PTRACE_GETSIGMASK, thread_, data_of(sizeof state.signal_mask), &state.signal_mask) != 0)
    return std::nullopt;
  return state;
}

bool TracedThread::set_state(const ThreadState& state) const {
  const bool extended_set = set_extended_state(thread_, state.extended);
  return set_signal_mask(state.signal_mask) && set_registers(state.registers) && extended_set;
}

bool TracedThread::set_registers(const user_regs_struct& registers) const {
  user_regs_struct copy = registers;
  iovec general{.iov_base = &copy, .iov_len = sizeof copy};
  return ::ptrace(PTRACE_SETREGSET, thread_, data_of(NT_PRSTATUS), &general) == 0;
}

bool TracedThread::set_signal_mask(std::uint64_t mask) const {
  return ::ptrace(PTRACE_SETSIGMASK, thread_, data_of(sizeof mask), &mask) == 0;
}

}  // namespace memreel::attach
