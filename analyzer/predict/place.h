// Places the allocations of a synthetic trace as an allocator would.
#pragma once

#include "analyzer/predict/synthesize.h"
#include "formats/torch/settings.h"

namespace memreel {

/// Replays PyTorch's allocator with `settings`, by the rules of their release, over the trace of `predicted_run`: every
/// allocation gets its address, and the segments that the allocator takes and releases become events. The device has no
/// limit.
void place(PredictedRun& predicted_run, const TorchSettings& settings);

}  // namespace memreel
