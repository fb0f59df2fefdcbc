// One-line labels in reports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {

/// The label of a stack that was not recorded.
inline constexpr std::string_view no_stack_label = "(no stack)";

/// "train.py:41", below the folder that all of the user's files share; "transformers/activations.py:66" for an
/// installed package; "compiled cxlfggre:165" for generated code; the function if there is no file; "(no stack)" if
/// there is nothing.
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
