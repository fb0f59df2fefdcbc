// SPDX-License-Identifier: Apache-2.0
// What every view shares around its list: the line at the bottom, into which a search is typed, and the box of keys.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "viewer/terminal/input.h"
#include "viewer/terminal/look.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

enum class Typed : std::uint8_t { more, done, cancelled };

/// Changes `text`, of at most 1,000 bytes, as a key does.
Typed type_into(std::string& text, const Key& key);
void draw_prompt(Screen& screen, int y, std::string_view text, const Look& look);

/// "copied: 300.98 MiB  11.8 ms  oom": what is said of a row that is copied with tabs.
std::string copied_words(std::string_view row);

struct HelpLine {
  std::string_view keys, what;
};

/// `top`: the first line in view; clamped. `title`: what the keys are of.
void draw_help(Screen& screen, std::string_view title, std::span<const HelpLine> lines, int& top, const Look& look);

}  // namespace memreel::viewer::terminal
