// Which frame of a stack the user can change.
#pragma once

#include <span>
#include <vector>

#include "formats/model/stack_text.h"

namespace memreel {

/// The innermost frame in the user's own code. Without one, the frame that says most: the innermost of Python; else the
/// innermost node of a backward pass; else the outermost operation; else the innermost of all that reports don't hide.
/// Empty for an empty stack.
FrameText own_frame(const std::vector<FrameText>& frames);

/// The same frame of a stack in tables; FrameId::none for an empty stack.
FrameId own_frame(const Tables& tables, StackId stack);
FrameId own_frame(const Tables& tables, std::span<const FrameId> innermost_first);

/// The innermost frame that explains: in the user's own code, or a module call of a library other than PyTorch (a
/// transformer's block rather than the line `loss = model(x)`). Otherwise as own_frame().
FrameText explaining_frame(const std::vector<FrameText>& frames);

/// The innermost frame of generated code that explaining_frame() calls; empty if it calls none.
FrameText compiled_frame(const std::vector<FrameText>& frames);

}  // namespace memreel
