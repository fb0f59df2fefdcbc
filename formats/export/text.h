// Names come from the recorded program and may be invalid UTF-8; exports must be valid.
#pragma once

#include <string>
#include <string_view>

namespace memreel {

/// `text` with U+FFFD for every byte that is not valid UTF-8.
std::string utf8(std::string_view text);

/// The same as a quoted JSON string.
std::string json_string(std::string_view text);

}  // namespace memreel
