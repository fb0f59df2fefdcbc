// The calls of modules that a stack lies in, without the frames that only pass a call on.
#pragma once

#include <string>
#include <vector>

#include "analyzer/category/stack_meanings.h"
#include "formats/model/stack_text.h"

namespace memreel {

/// The innermost call of a module that is not one of PyTorch's own; of PyTorch's where there are no others. Without
/// function and file: the stack is in no module.
FrameText layer_frame(const Tables& tables, const std::vector<StackMeaning>& stacks, StackId stack);

/// All of them, outermost first: "x.py:682/x.py:305/linear.py:134".
std::string layer_path(const Tables& tables, const std::vector<StackMeaning>& stacks, StackId stack);

}  // namespace memreel
