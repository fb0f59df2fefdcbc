// How the program's threads wake the agent's: a futex, so that no system call is needed when nothing waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace memreel::agent {

class Wakeup {
 public:
  /// Returns after wake(), at once if it was called since the last wait, or after `period`.
  void wait(std::chrono::milliseconds period);

  /// Any thread, also in a hook. Makes a system call only while a thread waits.
  void wake();

 private:
  enum : std::uint32_t { nothing, waiting, called };
  std::atomic<std::uint32_t> state_ = nothing;
};

}  // namespace memreel::agent
