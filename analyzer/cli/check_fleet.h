// SPDX-License-Identifier: Apache-2.0
// memreel check --fleet: budgets and a baseline for all ranks of a job.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <span>

#include "analyzer/cli/output.h"
#include "formats/model/units.h"

namespace memreel::cli {

/// The files that `memreel check` writes; empty: not asked for.
struct CheckOutputs {
  std::filesystem::path baseline, junit, markdown;
  bool json = false;  // to standard output

  /// Where text goes: to standard error if a file takes standard output.
  std::ostream& text() const;
};

/// Fails if an output is one of the files that are read, another output, or where the JSON document goes. A new
/// baseline may replace the old.
Result<void> outputs_differ(std::span<const std::filesystem::path> inputs, const std::filesystem::path& old_baseline,
                            const CheckOutputs& outputs);

/// Ends a check that could not judge: prints why, and writes it where the outcome was to go, instead of leaving an
/// earlier one there. The baseline stays.
Exit unjudged(const Error& why, const CheckOutputs& outputs, std::string_view subject);

struct CheckFleetArguments {
  std::vector<std::filesystem::path> files;
  std::string max_reserved, max_p99, max_imbalance, min_headroom, max_leaked, capacity, rank_pattern, heap, job;
  std::optional<std::uint32_t> world_size;  // none: from the recordings, else the highest rank
  double tolerance = 0;
  Bytes memory_limit;
  std::filesystem::path baseline, write_baseline, junit, markdown;
  bool json = false, allow_incomplete = false;

  CheckOutputs outputs() const {
    return {.baseline = write_baseline, .junit = junit, .markdown = markdown, .json = json};
  }
};

Exit run_check_fleet(const CheckFleetArguments& arguments);

}  // namespace memreel::cli
