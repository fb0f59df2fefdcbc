// Where all the code of a function is.
#pragma once

#include <vector>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/module_table.h"

namespace memreel::stacks {

/// The ranges of a function's code: `function`, which its symbol names, and then the parts that a compiler or linker
/// put elsewhere because they seldom run (as GCC's -freorder-blocks-and-partition and BOLT do), for which stripped
/// files have no symbol. Such a part is told by `function`'s jumps: code jumps to the beginning of another function,
/// but into the middle only of itself. `tables` are those of the module that `function` lies in, mapped and readable.
/// Of x86-64; elsewhere, and without tables, `function` alone.
std::vector<AddressRange> parts_of(AddressRange function, const CallFrames& tables);

}  // namespace memreel::stacks
