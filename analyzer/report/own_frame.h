// Which frame of a stack a person can change.
#pragma once

#include <string_view>
#include <vector>

#include "formats/model/stack_text.h"

namespace memreel {

/// Whether a Python file belongs to an installed package or the interpreter rather than to the user.
bool is_library_file(std::string_view file);

/// The innermost frame in the user's own code; the innermost of all when there is none; empty for an empty stack.
FrameText own_frame(const std::vector<FrameText>& frames);

}  // namespace memreel
