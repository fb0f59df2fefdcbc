// Fitting text to the terminal.
#pragma once

#include <cstddef>
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

/// Breaks `text` into lines of at most `width` columns at blanks and after commas; if there are none, anywhere. Never
/// empty.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t width);

/// The same as one string: each line is indented, within `width`, and ends with a line feed.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = terminal_width());

}  // namespace memreel
