// A lock for code that the program's own threads may enter unexpectedly: in a signal handler that interrupted the
// holder, or while exiting the process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>

namespace memreel::agent {

/// Lockable, for std::unique_lock with a limit. Waits are bounded, and a thread never waits for itself. It is seldom
/// held, and then for so long that polling is as good as being woken.
class Gate {
 public:
  /// Returns false at once if the calling thread already holds it, or after `limit` if another thread keeps it.
  bool try_lock_for(std::chrono::milliseconds limit);
  bool try_lock() { return try_lock_for(std::chrono::milliseconds(0)); }
  void unlock() { holder_.store(0, std::memory_order_release); }

  /// In a forked child, where the holder does not exist.
  void reset() { unlock(); }

 private:
  std::atomic<pid_t> holder_ = 0;  // kernel thread ID; 0: unlocked
};

}  // namespace memreel::agent
