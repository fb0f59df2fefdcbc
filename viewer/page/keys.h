// Keys as browsers name them.
#pragma once

#include <string_view>

namespace memreel::viewer {

/// GLFW's number of the key that browsers call `code` (KeyboardEvent.code, by its place on the keyboard); 0: none that
/// the viewer knows.
int key_of_code(std::string_view code);

}  // namespace memreel::viewer
