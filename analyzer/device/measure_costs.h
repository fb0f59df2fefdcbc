// Measures on a GPU what driver calls cost.
#pragma once

#include "analyzer/device/gpu.h"
#include "analyzer/replay/unit_costs.h"

namespace memreel::gpu {

/// Takes a second or less and at most 512 MiB of the GPU. What it could not measure is 0; gpu.error() says why.
UnitCosts measure_unit_costs(Gpu& gpu);

}  // namespace memreel::gpu
