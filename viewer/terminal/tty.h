// SPDX-License-Identifier: Apache-2.0
// The terminal that the process runs in: the only file that knows ncurses. Whatever ends or stops the process, the
// terminal is left as it was found.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "formats/model/result.h"
#include "viewer/terminal/input.h"
#include "viewer/terminal/look.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

/// Whether standard input and output are a terminal.
bool has_terminal();
/// Whether it can't move its cursor: TERM is "dumb" or not set.
bool is_dumb_terminal();

/// At most one at a time.
class Tty {
 public:
  /// Takes the terminal. Errors: its type is not known, or it can't move the cursor.
  static Result<std::unique_ptr<Tty>> open();
  Tty(const Tty&) = delete;
  Tty& operator=(const Tty&) = delete;
  /// Gives it back.
  ~Tty();

  /// By the locale, TERM, COLORTERM, NO_COLOR and COLORFGBG.
  const Look& look() const { return look_; }
  int width() const { return width_; }
  int height() const { return height_; }

  /// Writes what differs from what is shown.
  void show(const Screen& screen);
  /// The next input, at the latest after `patience`. Stops the process if it was asked to, and takes the terminal again
  /// when it goes on.
  Input wait(std::chrono::milliseconds patience);
  /// Puts a text into the clipboard of the terminal, if it allows that (OSC 52).
  void copy(std::string_view text);

  /// Ends a wait(). To be called from any thread.
  static void wake();
  /// SIGTERM, SIGINT or SIGHUP, if one came; SIGHUP also if the terminal is gone.
  static std::optional<int> ending_signal();

 private:
  Tty();

  void enter();
  void measure();
  std::optional<Input> next_input();
  void suspend();

  Look look_;
  int width_ = 80, height_ = 24;
  std::optional<Screen> shown_;
  int colours_ = 0;
};

}  // namespace memreel::viewer::terminal
