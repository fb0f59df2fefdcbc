#include "collector/recorder/wakeup.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace memreel::agent {

void Wakeup::wait(std::chrono::milliseconds period) {
  std::uint32_t expected = nothing;
  if (state_.compare_exchange_strong(expected, waiting)) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
    const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(period - seconds).count()};
    ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, waiting, &timeout, nullptr, 0);
  }
  state_.store(nothing);
}

void Wakeup::wake() {
  if (state_.exchange(called) == waiting)
    ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace memreel::agent
