// NVTX's memory extension (nvtx3/nvToolsExtMem.h): heaps that a program registers become pools of its own in the trace,
// and regions that it registers in them become their allocations.
#pragma once

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

/// Takes the functions of a copy of the memory extension. `device` tells the CUDA ordinal that is current in the
/// calling thread, negative when there is none: NVTX does not say where a heap's memory is, so it is taken to be where
/// it was registered. False for other extensions, which go on without a tool.
bool take_over_memory(const ExtensionInfo& info, int (*device)());

}  // namespace memreel::nvtx
