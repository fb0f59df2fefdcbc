// Driver calls intercepted by the agent's own symbols, which precede the driver's when the agent is preloaded. For
// programs in which another tool holds CUPTI.
//
// A program reaches the driver's functions in three ways, and finds ours in each: it links against libcuda, looks them
// up with dlsym, or calls cuGetProcAddress, itself found in one of the other ways. The runtime, statically linked or
// not, and PyTorch use the last. Not seen: functions from cuGetExportTable, with which no known program allocates.
#pragma once

#include "collector/cuda/watch.h"

namespace memreel::cuda::interposer {

/// Whether the program's calls come through here. Until begin() they are only passed on.
bool preloaded();

/// Reports calls to `watch` from now on. It must stay alive.
void begin(Watch& watch);
void end();

/// Defined by the linking library: the program has initialized the driver through a preloaded cuInit.
void driver_initialized();
/// Likewise: a component of the program is about to subscribe to CUPTI; `shares`: it would share it.
void cupti_wanted(bool shares);

}  // namespace memreel::cuda::interposer
