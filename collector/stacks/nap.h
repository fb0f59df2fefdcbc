// Waiting in threads of the program.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

namespace memreel::stacks {

/// Sleeps for less than a second, or until a signal comes. Unlike nanosleep(3) it is no place where a thread may be
/// cancelled: the program's calls that lead here are none either.
inline void nap(std::chrono::nanoseconds time) {
  const timespec left{.tv_sec = 0, .tv_nsec = time.count()};
  ::syscall(SYS_nanosleep, &left, nullptr);
}

}  // namespace memreel::stacks
