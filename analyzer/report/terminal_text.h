// Text that fits the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace memreel {

/// Columns of the terminal that standard output is, unless COLUMNS says otherwise; 80 when there is none.
std::size_t terminal_width();

/// Number of terminal columns that UTF-8 text takes, one per code point.
std::size_t display_width(std::string_view text);

/// `text` in at most `width` columns: of what is longer the middle is left out, because names differ at their ends.
std::string clipped_middle(std::string_view text, std::size_t width);

/// `text` in lines of at most `width` columns, broken at blanks and after commas, where there are none anywhere.
/// Never empty.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t width);

/// The same as one text: each line is indented, within `width`, and ends with a line feed.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = terminal_width());

}  // namespace memreel
