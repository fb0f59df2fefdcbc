// SPDX-License-Identifier: Apache-2.0
// `memreel replay` on a real GPU, and the comparison with the model.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "analyzer/cli/output.h"
#include "analyzer/replay/device/real_pools.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"

namespace memreel::cli {

// Files with the costs of driver calls: {"schema":"memreel.unit-costs/1",...}

/// Errors: the file can't be read or has another format. Kinds of calls it omits cost nothing.
Result<UnitCosts> read_unit_costs(const std::filesystem::path& file);

Result<void> write_unit_costs(const UnitCosts& costs, const std::filesystem::path& file);

struct GpuArguments {
  int number = 0;
  gpu::SegmentsBy segments_by = gpu::SegmentsBy::malloc;
  std::filesystem::path write_unit_costs;  // empty: not requested
};

/// What was run, ordered by spec, then by heap.
struct OnDevice {
  std::string gpu_name, cuda_version;
  std::vector<PolicySpec> specs;
  std::vector<gpu::OnDeviceResult> results;
};

/// Returns nothing, without looking for a GPU, if there is nothing to run and no cost to measure.
Result<std::optional<OnDevice>> run_on_device(const GpuArguments& arguments, std::span<const Prepared> heaps,
                                              const std::vector<PolicySpec>& specs, const ReplayOptions& options);

/// One entry per run: what `of_replay` makes of its replay, and what only a device can measure. `models` are the
/// results of the same specs on the same heaps.
Json json_of(const OnDevice& real, std::span<const ReplayResult> models,
             const std::function<Json(const ReplayResult&)>& of_replay);

/// Prints to standard output.
void print_table(const OnDevice& real, std::span<const ReplayResult> models);

/// "12.345 ms"
std::string milliseconds(double seconds);

}  // namespace memreel::cli
