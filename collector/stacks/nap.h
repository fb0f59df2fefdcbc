// SPDX-License-Identifier: Apache-2.0
// Sleeping in the program's threads.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

namespace memreel::stacks {

/// Sleeps for less than a second, or until a signal arrives. Unlike nanosleep(3), it is not a cancellation point:
/// neither are the program's calls that lead here.
inline void nap(std::chrono::nanoseconds time) {
  const timespec left{.tv_sec = 0, .tv_nsec = time.count()};
  ::syscall(SYS_nanosleep, &left, nullptr);
}

/// Naps until a condition holds, or for `limit`. The result is whether it holds. By the clock: a nap of 50 us takes 150
/// where the kernel groups timers (PR_SET_TIMERSLACK), more on a busy machine.
template <class Condition>
bool nap_until(Condition&& holds, std::chrono::nanoseconds limit,
               std::chrono::nanoseconds pause = std::chrono::microseconds(50)) {
  if (holds()) return true;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    if (std::chrono::steady_clock::now() >= end) return false;
    nap(pause);
  } while (!holds());
  return true;
}

}  // namespace memreel::stacks
