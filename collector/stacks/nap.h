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

}  // namespace memreel::stacks
