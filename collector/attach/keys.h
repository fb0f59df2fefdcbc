// Keyboard input for a table that is redrawn periodically.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t
#include <termios.h>

#include <chrono>

namespace memreel::attach {

/// While this lives, keys arrive one at a time without echo, and SIGINT, SIGTERM and SIGHUP count as keys. If standard
/// input or output is not a terminal, only signals are reported.
class Keys {
 public:
  /// Means quit: the key q, a signal, or the terminal's hangup.
  static constexpr char end = 'q';

  Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys();

  /// The next key in lower case; 0 if none came within `pause`. Returns at once if `pause` is negative.
  char next(std::chrono::milliseconds pause);

 private:
  sigset_t mask_before_{};
  int signals_ = -1;
  bool terminal_ = false;
  termios before_{};
};

}  // namespace memreel::attach
