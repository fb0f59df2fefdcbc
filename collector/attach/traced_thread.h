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

/// The full state needed to resume a thread as if nothing had happened.
struct ThreadState {
  user_regs_struct registers{};
  std::vector<std::byte> extended;  // floating-point and vector registers, as the kernel returns them (XSAVE)
  std::uint64_t signal_mask = 0;
};

/// Seized (PTRACE_SEIZE), which the thread does not notice; detached by the destructor, or by the kernel when this
/// process ends. Signals sent to it meanwhile are delivered. Only the thread of this process that created it may use
/// it.
class TracedThread {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Errors: the errno of the system's refusal.
  static std::optional<int> seize(pid_t thread);  // none: success

  explicit TracedThread(pid_t thread) : thread_(thread) {}
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;
  /// Detaches; the thread resumes with the state set last.
  ~TracedThread();

  /// False if it does not stop in time, or is gone.
  bool stop(Deadline deadline);
  /// The stopped thread's state.
  std::optional<ThreadState> state() const;
  bool set_state(const ThreadState& state) const;
  bool set_registers(const user_regs_struct& registers) const;
  bool set_signal_mask(std::uint64_t mask) const;

  /// Runs until stop().
  bool resume();
  /// Runs to the start or end of its next system call. Before it is detached it must be stopped again, at a point where
  /// the kernel handles interrupted calls.
  bool run_to_system_call(Deadline deadline);

  bool is_gone() const { return gone_; }

 private:
  enum class Stop { none, by_us, system_call, gone };
  bool wait_for(Stop wanted, Deadline deadline);
  Stop take_in(int status);

  pid_t thread_;
  bool stopped_ = false, gone_ = false;
  bool to_system_call_ = false;  // resumed to stop at a system call
  bool stop_signal_ = false;     // a SIGSTOP from elsewhere, to be delivered after we detach
};

}  // namespace memreel::attach
