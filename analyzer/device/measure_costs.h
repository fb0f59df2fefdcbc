// Measures the cost of driver calls on a GPU.
#pragma once

#include "analyzer/device/gpu.h"
#include "analyzer/replay/unit_costs.h"

namespace memreel::gpu {

/// Takes at most a second and at most 512 MiB of the GPU. Costs that could not be measured are 0; gpu.error() says why.
UnitCosts measure_unit_costs(Gpu& gpu);

}  // namespace memreel::gpu
