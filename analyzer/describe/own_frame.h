// SPDX-License-Identifier: Apache-2.0
// Which frame of a stack the user can change.
#pragma once

#include <span>

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {

/// The innermost frame in the user's own code. Without one, the frame that says most: the innermost of a package other
/// than PyTorch; else of Python; else the innermost node of a backward pass; else the outermost operation; else the
/// innermost of all that reports don't hide. Empty for an empty stack.
FrameText own_frame(const std::vector<FrameText>& frames);

/// The same frame of a stack in tables; FrameId::none for an empty stack.
FrameId own_frame(const Tables& tables, StackId stack);
FrameId own_frame(const Tables& tables, std::span<const FrameId> innermost_first);

/// The innermost frame that explains: in the user's own code, or a module call of a library other than PyTorch (a
/// transformer's block rather than the line `loss = model(x)`). Otherwise as own_frame().
FrameText explaining_frame(const std::vector<FrameText>& frames);

/// The innermost frame of generated code that explaining_frame() calls; empty if it calls none.
FrameText compiled_frame(const std::vector<FrameText>& frames);

// One-line labels in reports.

/// The label of a stack that was not recorded.
inline constexpr std::string_view no_stack_label = "(no stack)";

/// "train.py:41", below the folder that all of the user's files share; "transformers/activations.py:66" for an
/// installed package; "compiled cxlfggre:165" for generated code; the function if there is no file, else the module;
/// "(no stack)" if there is nothing.
std::string line_label(const FrameText& frame);

/// Whose code requested memory: the innermost native module outside CUDA and PyTorch's allocators ("libnccl.so.2"); for
/// Python, the installed package ("transformers"); "own code" if it is neither.
std::string library_label(const std::vector<FrameText>& frames);

/// "step (train.py:41)", with the file as in line_label().
std::string place_label(FrameText frame);

/// ", compiled cxlfggre" if the explaining frame calls code that torch.compile made, with the beginning of its file's
/// name; else empty.
std::string compiled_label(const std::vector<FrameText>& frames);

/// "step (train.py:41)", with the file name only: for tables, whose lines are short.
std::string short_label(FrameText frame);

/// The explaining frame (own_frame.h): "step (train.py:41)", with compiled_label(); or "(no stack)".
std::string site_label(const Tables& tables, StackId stack);

}  // namespace memreel
