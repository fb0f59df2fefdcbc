// NVTX's memory extension (nvtx3/nvToolsExtMem.h): heaps that a program registers become custom pools in the trace, and
// regions registered in them become their allocations.
#pragma once

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

/// Installs our functions in one copy of the memory extension. `device` returns the current CUDA ordinal of the calling
/// thread, negative if there is none: NVTX does not say where a heap's memory is, so memreel assumes the device that
/// was current at registration. False for other extensions, which then run without a tool.
bool take_over_memory(const ExtensionInfo& info, int (*device)());

}  // namespace memreel::nvtx
