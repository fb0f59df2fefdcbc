// Finds all the code of a function.
#pragma once

#include <vector>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/module_table.h"

namespace memreel::stacks {

/// The ranges of a function's code: `function`, the range of its symbol, followed by the cold parts that a compiler or
/// linker placed elsewhere (such as GCC's -freorder-blocks-and-partition and BOLT) and for which stripped files have no
/// symbol. Such a part is recognised by `function`'s jumps: code jumps to the start of another function, but into the
/// middle only of its own. `tables` are those of `function`'s module, mapped and readable. On x86-64; elsewhere, and
/// without tables, `function` alone.
std::vector<AddressRange> parts_of(AddressRange function, const CallFrames& tables);

}  // namespace memreel::stacks
