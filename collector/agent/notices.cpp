#include "collector/agent/notices.h"

#include <pthread.h>
#include <unistd.h>

#include <ctime>

namespace memreel::agent {

HarmlessWrites::HarmlessWrites() {
  sigset_t pending{};
  ::sigpending(&pending);
  ::sigemptyset(&made_);
  for (const int signal : {SIGPIPE, SIGXFSZ})
    if (::sigismember(&pending, signal) == 0) ::sigaddset(&made_, signal);
  ::pthread_sigmask(SIG_BLOCK, &made_, &before_);
}

HarmlessWrites::~HarmlessWrites() {
  const timespec at_once{};
  while (::sigtimedwait(&made_, nullptr, &at_once) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void say(const std::string& text) {
  const std::string line = "memreel: " + text + "\n";
  const HarmlessWrites harmless;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace memreel::agent
