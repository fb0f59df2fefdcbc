// Browser key codes.
#pragma once

#include <string_view>

namespace memreel::viewer {

/// The GLFW key code for a browser's `code` (KeyboardEvent.code, by position on the keyboard); 0: not known to the
/// viewer.
int key_of_code(std::string_view code);

}  // namespace memreel::viewer
