// The frames of a stack that a flame graph by layer shows: layers and the program's own functions.
#pragma once

#include <vector>

#include "analyzer/category/stack_meanings.h"
#include "formats/model/tables.h"

namespace memreel::viewer {

/// By StackId: whether its frame is a call of a module, which stands for the module's functions, or one of the
/// program's own functions outside modules. If the recording does not know modules, the functions that nn.Module's
/// machinery calls stand for them. That machinery, hooks, decorators and libraries are folded.
std::vector<bool> layer_frames(const Tables& tables, const std::vector<StackMeaning>& stacks);

/// Whether layer_frames() would name any layer.
bool has_layers(const std::vector<StackMeaning>& stacks);

}  // namespace memreel::viewer
