#include "collector/recorder/gate.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "collector/stacks/nap.h"

namespace memreel::agent {

bool Gate::try_lock_for(std::chrono::milliseconds limit) {
  constexpr std::chrono::microseconds pause{200};
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  std::chrono::microseconds waited{0};
  while (true) {
    pid_t holder = 0;
    if (holder_.compare_exchange_strong(holder, self, std::memory_order_acquire)) return true;
    if (holder == self || waited >= limit) return false;
    stacks::nap(pause);
    waited += pause;
  }
}

}  // namespace memreel::agent
