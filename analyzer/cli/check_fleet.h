// SPDX-License-Identifier: Apache-2.0
// memreel check --fleet: budgets and a baseline for all ranks of a job.
#pragma once

#include "analyzer/cli/check_outcome.h"
#include "formats/model/units.h"

namespace memreel::cli {

struct CheckFleetArguments {
  std::vector<std::filesystem::path> files;
  std::string max_reserved, max_p99, max_imbalance, min_headroom, max_leaked, capacity, rank_pattern, heap, job;
  std::optional<std::uint32_t> world_size;  // none: from the recordings, else the highest rank
  double tolerance = 0;
  Bytes memory_limit;
  std::filesystem::path baseline, write_baseline, junit, markdown;
  bool json = false, allow_incomplete = false;

  CheckOutputs outputs() const {
    return {.baseline = write_baseline, .junit = junit, .markdown = markdown, .json = json, .old_baseline = baseline};
  }
};

Exit run_check_fleet(const CheckFleetArguments& arguments);

}  // namespace memreel::cli
