// A lock for what the program's own threads come to by accident: in a signal's handler that interrupted whoever has it,
// or on their way out of the process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>

namespace memreel::agent {

/// Lockable, for std::unique_lock with a limit. Nobody waits for it without end, and nobody for himself. It is seldom
/// held, and then for so long that looking at it every now and then is as good as being woken.
class Gate {
 public:
  /// False at once when the calling thread has it already, else when others kept it for longer than `limit`.
  bool try_lock_for(std::chrono::milliseconds limit);
  bool try_lock() { return try_lock_for(std::chrono::milliseconds(0)); }
  void unlock() { holder_.store(0, std::memory_order_release); }

  /// In the child of a fork: whoever had it is not there.
  void reset() { unlock(); }

 private:
  std::atomic<pid_t> holder_ = 0;  // the thread by the kernel's number; 0: nobody
};

}  // namespace memreel::agent
