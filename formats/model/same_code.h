// Stacks that differ only in which module each frame calls.
#pragma once

#include <vector>

#include "formats/model/tables.h"

namespace memreel {

/// For each StackId the first stack of the same frames, whichever modules they call: what a model does in each of its
/// blocks is one place in code. Linear in frames and stacks.
std::vector<StackId> same_code(const Tables& tables);

}  // namespace memreel
