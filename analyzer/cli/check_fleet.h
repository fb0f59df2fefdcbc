// SPDX-License-Identifier: Apache-2.0
// memreel check --fleet: budgets and a baseline for all ranks of a job.
#pragma once

#include <filesystem>
#include <span>

#include "analyzer/cli/output.h"
#include "formats/model/units.h"

namespace memreel::cli {

/// Fails if an output of `memreel check` is one of the recordings or another output. A new baseline may replace the
/// old.
Result<void> outputs_differ(std::span<const std::filesystem::path> recordings, const std::filesystem::path& baseline,
                            const std::filesystem::path& write_baseline, const std::filesystem::path& junit,
                            const std::filesystem::path& markdown);

struct CheckFleetArguments {
  std::vector<std::filesystem::path> files;
  std::string max_reserved, max_p99, max_imbalance, min_headroom, max_leaked, capacity, rank_pattern, heap, job;
  std::optional<std::uint32_t> world_size;  // none: from the recordings, else the highest rank
  double tolerance = 0;
  Bytes memory_limit;
  std::filesystem::path baseline, write_baseline, junit, markdown;
  bool json = false, allow_incomplete = false;

  /// Whether any budget that only applies to jobs is set.
  bool any_budget() const { return !max_p99.empty() || !max_imbalance.empty() || !min_headroom.empty(); }
};

Exit run_check_fleet(const CheckFleetArguments& arguments);

}  // namespace memreel::cli
