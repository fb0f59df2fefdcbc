// SPDX-License-Identifier: Apache-2.0
// The terminal that the process runs in: the only file that knows ncurses. Whatever ends or stops the process, the
// terminal is left as it was found.
#pragma once

#include <chrono>
#include <memory>
#include <variant>

#include "formats/model/result.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

// What a user does with a terminal, as values.

enum class Special : std::uint8_t {
  none,
  up,
  down,
  left,
  right,
  shift_left,
  shift_right,
  alt_left,
  alt_right,
  page_up,
  page_down,
  home,
  end,
  enter,
  tab,
  back_tab,
  backspace,
  escape,
};

struct Key {
  Special special = Special::none;
  char32_t character = 0;  // if not special; control characters as they are

  friend bool operator==(const Key&, const Key&) = default;
};

enum class Button : std::uint8_t { left, wheel_up, wheel_down };

struct Click {
  Button button = Button::left;
  int x = 0, y = 0;

  friend bool operator==(const Click&, const Click&) = default;
};

struct Resized {
  friend bool operator==(const Resized&, const Resized&) = default;
};

/// Nothing was done, but there may be news from elsewhere.
struct Woken {
  friend bool operator==(const Woken&, const Woken&) = default;
};

using Input = std::variant<Woken, Key, Click, Resized>;

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
