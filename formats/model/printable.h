// Text of a recorded program on its way to people: names are data, and must not move a cursor, forge a line or turn the
// order of what is read.
#pragma once

#include <string>
#include <string_view>

namespace memreel {

/// `text` on one line of UTF-8. Control characters, bytes that are no UTF-8, and characters that break lines or turn
/// the direction of writing become escapes that can be read: "\x1b", "\n", "\u202e". All else stays as it is.
std::string printable(std::string_view text);

/// Whether printable() leaves it as it is.
bool is_printable(std::string_view text);

/// printable(), in place.
void make_printable(std::string& text);

}  // namespace memreel
