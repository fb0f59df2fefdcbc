#include "collector/attach/keys.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace memreel::attach {

Keys::Keys() {
  sigset_t set{};
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, &mask_before_);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  terminal_ = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (!terminal_) return;
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

Keys::~Keys() {
  if (terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  if (signals_ >= 0) ::close(signals_);
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

char Keys::next(std::chrono::milliseconds pause) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point limit = Clock::now() + pause;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
    std::array<pollfd, 2> waiting{pollfd{.fd = signals_, .events = POLLIN, .revents = 0},
                                  pollfd{.fd = terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready == 0) return 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return end;
    if (waiting[0].revents != 0) {
      signalfd_siginfo taken{};  // otherwise it would be delivered once it is unblocked
      [[maybe_unused]] const ssize_t size = ::read(signals_, &taken, sizeof taken);
      return end;
    }
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) <= 0) return end;
    return key >= 'A' && key <= 'Z' ? static_cast<char>(key - 'A' + 'a') : key;
  }
}

}  // namespace memreel::attach
