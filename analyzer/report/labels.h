// What things of a trace are called in one line of a report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {

/// What stands for a stack that was not recorded.
inline constexpr std::string_view no_stack_label = "(no stack)";

/// "train.py:41", "transformers/activations.py:66" of an installed package; the function when there is no file; "(no
/// stack)" when there is nothing.
std::string line_label(const FrameText& frame);

/// Whose code asked for memory: the innermost native module outside CUDA and PyTorch's allocators ("libnccl.so.2"); of
/// Python, the installed package ("transformers"); "own code" when that is neither.
std::string library_label(const std::vector<FrameText>& frames);

/// "step (train.py:41)", with the file as in line_label().
std::string place_label(FrameText frame);

/// "step (train.py:41)", with the file's name alone: for tables, whose lines have room for little more.
std::string short_label(FrameText frame);

/// The place that explains (own_frame.h): "step (train.py:41)", or "(no stack)".
std::string site_label(const Tables& tables, StackId stack);

}  // namespace memreel
