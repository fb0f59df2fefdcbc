// The module calls that a stack lies in, without wrapper frames.
#pragma once

#include <string>
#include <vector>

#include "analyzer/category/classify.h"
#include "analyzer/category/stack_meanings.h"
#include "formats/model/stack_text.h"

namespace memreel {

/// The innermost call of a module that is not one of PyTorch's own; of PyTorch's if there are no others. Without
/// function and file if the stack is in no module.
FrameText layer_frame(const Tables& tables, const std::vector<StackMeaning>& stacks, StackId stack);

/// The innermost module that the stack is a call of, if the recording knows modules: as the program named it,
/// "transformer.h.3.mlp", else by its class and number and those of its callers, "GPT2Model 0/GPT2Block 3/GPT2MLP 3".
/// Otherwise all module calls, outermost first: "x.py:682 #3/x.py:305/linear.py:134", where `call` is the run of the
/// line in Categories::calls, or LayerCalls::none.
std::string layer_path(const Tables& tables, const Categories& categories, StackId stack, std::uint16_t call);

}  // namespace memreel
