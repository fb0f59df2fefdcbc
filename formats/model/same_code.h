// Stacks that differ only in the called modules.
#pragma once

#include <vector>

#include "formats/model/tables.h"

namespace memreel {

/// For each StackId, the first stack with the same frames, ignoring the called modules: the repeated blocks of a model
/// count as one place in code. Linear in frames and stacks.
std::vector<StackId> same_code(const Tables& tables);

}  // namespace memreel
