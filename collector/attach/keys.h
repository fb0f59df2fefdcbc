// What the person at the terminal asks of a table that is drawn again and again.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t
#include <termios.h>

#include <chrono>

namespace memreel::attach {

/// While this lives, keys come one by one and unseen, and SIGINT, SIGTERM and SIGHUP are keys like any other. Where
/// standard input or output is no terminal, there are signals alone.
class Keys {
 public:
  /// What stands for "end": the key q, a signal, or a terminal that is gone.
  static constexpr char end = 'q';

  Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys();

  /// The next key as a small letter; 0 when there was none for that long. A pause of less than nothing returns at once.
  char next(std::chrono::milliseconds pause);

 private:
  sigset_t mask_before_{};
  int signals_ = -1;
  bool terminal_ = false;
  termios before_{};
};

}  // namespace memreel::attach
