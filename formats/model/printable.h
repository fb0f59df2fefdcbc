// Makes a recorded program's text safe to show: names are data, and must not move the cursor, forge a line or change
// the reading order.
#pragma once

#include <string>
#include <string_view>

namespace memreel {

/// `text` as one line of UTF-8. Control characters, invalid bytes, and characters that break lines or change the
/// writing direction become readable escapes: "\x1b", "\n", "\u202e". Everything else stays unchanged.
std::string printable(std::string_view text);

/// Whether printable() would leave it unchanged.
bool is_printable(std::string_view text);

/// printable(), in place.
void make_printable(std::string& text);

}  // namespace memreel
