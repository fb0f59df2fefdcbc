// SPDX-License-Identifier: Apache-2.0
// Names that others chose, made safe to show: they are data, and must not move the cursor, forge a line, change the
// reading order or run as a command.
#pragma once

#include <string>
#include <string_view>

namespace memreel {

/// `text` as one line of UTF-8. Control characters, invalid bytes, and characters that break lines or change the
/// writing direction become readable escapes: "\x1b", "\n", "\u202e". Everything else stays unchanged.
std::string printable(std::string_view text);

/// Whether printable() would leave it unchanged.
bool is_printable(std::string_view text);

/// Whether the beginning of a file, 4 KiB or more, can't be text in any encoding: so much of it are control characters
/// that no terminal takes. UTF-16 is text if it begins with its mark; zeros may be a hole that a truncated log has.
bool is_binary(std::string_view piece);

/// printable(), in place.
void make_printable(std::string& text);

/// A file's name as one word of a command that a user may copy into a shell: in quotes where the shell would take it
/// apart, and never like an option.
std::string shell_word(std::string_view file);

}  // namespace memreel
