// Names come from the recorded program and need not be UTF-8; what other tools read must be.
#pragma once

#include <string>
#include <string_view>

namespace memreel {

/// `text` with U+FFFD for every byte that is not UTF-8.
std::string utf8(std::string_view text);

/// The same as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace memreel
