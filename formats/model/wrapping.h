// SPDX-License-Identifier: Apache-2.0
// Text for terminals: how wide it is, shortened, and wrapped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace memreel {

/// The width of the terminal on standard output, unless COLUMNS overrides it; 80 if there is no terminal.
std::size_t terminal_width();

/// The number of terminal columns of UTF-8 text, one per code point.
std::size_t display_width(std::string_view text);

/// Shortens `text` to at most `width` columns by omitting its middle, because names differ at their ends.
std::string clipped_middle(std::string_view text, std::size_t width);

/// Breaks `text` into lines of at most `width` columns at blanks and after commas that are not within a number; if
/// there are none, anywhere. Never empty. Lines after the first are narrower by `hanging`.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t width, std::size_t hanging = 0);

/// The same as one string: each line is indented, within `width`, those after the first by `hanging` more, and ends
/// with a line feed.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = terminal_width(),
                    std::size_t hanging = 0);

/// The width of the longest part that wrapped_lines() keeps in one line.
std::size_t longest_word(std::string_view text);

}  // namespace memreel
