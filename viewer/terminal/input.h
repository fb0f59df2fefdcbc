// SPDX-License-Identifier: Apache-2.0
// What a user does with a terminal, as values.
#pragma once

#include <cstdint>
#include <variant>

namespace memreel::viewer::terminal {

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

}  // namespace memreel::viewer::terminal
