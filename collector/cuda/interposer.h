// Driver calls as they pass through the library itself, when it was preloaded: its symbols come before the driver's.
// For programs in which another tool holds CUPTI.
//
// A program gets at the driver's functions in three ways, and meets ours in each: it is linked with libcuda, it looks
// them up with dlsym, or it asks cuGetProcAddress, which it has by one of the other ways. The runtime, linked
// statically or not, and PyTorch use the last one. What is not seen: functions that cuGetExportTable gives, which no
// known program allocates with.
#pragma once

#include "collector/cuda/watch.h"

namespace memreel::cuda::interposer {

/// Whether the program's calls come through here. Until begin() they are passed on and nothing else.
bool preloaded();

/// From now on `watch` hears of them. It must stay.
void begin(Watch& watch);
void end();

/// Defined by whoever this is linked into: the program has initialized the driver through a preloaded cuInit.
void driver_initialized();
/// Likewise: a part of the program is about to subscribe to CUPTI, and would share it or not.
void cupti_wanted(bool shares);

}  // namespace memreel::cuda::interposer
