// Which frame of a stack the user can change.
#pragma once

#include <string_view>
#include <vector>

#include "formats/model/stack_text.h"

namespace memreel {

/// Whether a source file belongs to an installed package, the interpreter, or the compiler's or CUDA's headers rather
/// than to the user.
bool is_library_file(std::string_view file);

/// Whether a shared library, by its file name, is part of CUDA, the compiler or the system, which all code goes
/// through.
bool is_runtime(std::string_view library);

/// Whether a frame is in third-party code. For native code without a known source file, the module decides: libraries
/// of the system, the compiler and CUDA are third-party.
bool is_library(const FrameText& frame);

/// The innermost frame in the user's own code; the innermost of all if there is none; empty for an empty stack.
FrameText own_frame(const std::vector<FrameText>& frames);

/// The innermost frame that explains: in the user's own code, or a module call of a library other than PyTorch (a
/// transformer's block rather than the line `loss = model(x)`). Otherwise as own_frame().
FrameText explaining_frame(const std::vector<FrameText>& frames);

}  // namespace memreel
