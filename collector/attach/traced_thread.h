// One thread of another process, stopped for a moment (ptrace(2), x86-64).
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/model/result.h"

namespace memreel::attach {

/// Everything that makes a thread go on as if nothing had been.
struct ThreadState {
  user_regs_struct registers{};
  std::vector<std::byte> extended;  // of the floating point unit and its like, as the kernel gives it (XSAVE)
  std::uint64_t signal_mask = 0;
};

/// Seized, so that it takes no notice (PTRACE_SEIZE); let go by the destructor, or by the kernel when this process
/// ends. Signals that come for it meanwhile reach it. One thread of this process may use it, which made it.
class TracedThread {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Errors: an errno of the system's refusal.
  static std::optional<int> seize(pid_t thread);  // none: it is seized

  explicit TracedThread(pid_t thread) : thread_(thread) {}
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;
  /// Lets it go on, with whatever state was set last.
  ~TracedThread();

  /// False when it does not stop in time, or is gone.
  bool stop(Deadline deadline);
  /// Of the stopped thread.
  std::optional<ThreadState> state() const;
  bool set_state(const ThreadState& state) const;
  bool set_registers(const user_regs_struct& registers) const;
  bool set_signal_mask(std::uint64_t mask) const;

  /// Goes on until stop().
  bool resume();
  /// Goes on to the beginning or the end of its next system call. Before it is let go it has to be stopped again, at a
  /// place where the kernel looks after calls that were interrupted.
  bool run_to_system_call(Deadline deadline);

  bool is_gone() const { return gone_; }

 private:
  enum class Stop { none, by_us, system_call, gone };
  bool wait_for(Stop wanted, Deadline deadline);
  Stop take_in(int status);

  pid_t thread_;
  bool stopped_ = false, gone_ = false;
  bool to_system_call_ = false;  // it was resumed to go there, and stops there
  bool stop_signal_ = false;     // somebody sent SIGSTOP, which has to wait until we are gone
};

}  // namespace memreel::attach
