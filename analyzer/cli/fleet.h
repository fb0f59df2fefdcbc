// SPDX-License-Identifier: Apache-2.0
// The result of `memreel fleet`, before it becomes text or JSON.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/fleet_settings.h"

namespace memreel::cli {

struct FleetReport {
  Fleet fleet;
  std::optional<CommonSetting> setting;        // if requested
  std::vector<std::filesystem::path> skipped;  // files found in directories that are no recordings
};

/// Prints at most 100 columns. `top`: the most ranks, stacks and settings that a table lists. One report per job.
void print_fleet_text(std::span<const FleetReport> jobs, std::size_t top, std::ostream& out);
void write_fleet_json(std::span<const FleetReport> jobs, std::ostream& out);
/// A self-contained page: histogram, heat map over the mesh, the deciding rank next to the median.
void write_fleet_html(const FleetReport& report, std::ostream& out);

}  // namespace memreel::cli
