// How the program's threads wake one of ours: a futex, so that waking nobody costs no system call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace memreel::agent {

class Wakeup {
 public:
  /// Returns after wake(), at once if that was called since the last wait, or when `period` is over.
  void wait(std::chrono::milliseconds period);

  /// Any thread, also in a hook. A system call only while somebody waits.
  void wake();

 private:
  enum : std::uint32_t { nothing, waiting, called };
  std::atomic<std::uint32_t> state_ = nothing;
};

}  // namespace memreel::agent
