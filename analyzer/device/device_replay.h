// SPDX-License-Identifier: Apache-2.0
// Replays a trace on a real GPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analyzer/device/gpu.h"
#include "analyzer/device/real_pools.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"

namespace memreel::gpu {

struct OnDeviceOptions {
  SegmentsBy segments_by = SegmentsBy::malloc;
  std::optional<DeviceModel> device;  // as in ReplayOptions
  std::size_t series_points = 0;
};

struct OnDeviceResult {
  ReplayResult replay;  // the replay's metrics, from the driver's answers
  Bytes device_peak;    // the highest use reported by the device itself
  Tallies calls;        // every driver call made for it
};

/// Runs each spec on each heap, sequentially, on one GPU. Results are ordered by spec, then heap.
///
/// cuda.malloc and cuda.async are the driver's own: each request is a call, and every decision is the driver's. Any
/// other policy places its blocks itself, in real segments.
/// Errors: those of replay(); a bound, which reserves nothing; a call that failed for a reason other than lack of
/// memory.
Result<std::vector<OnDeviceResult>> replay_on_device(Gpu& gpu, std::span<const Prepared> heaps,
                                                     std::span<const PolicySpec> specs,
                                                     const OnDeviceOptions& options = {});

// Measures the cost of driver calls on a GPU.

/// Takes at most a second and at most 512 MiB of the GPU. Costs that could not be measured are 0; gpu.error() says why.
UnitCosts measure_unit_costs(Gpu& gpu);

}  // namespace memreel::gpu
