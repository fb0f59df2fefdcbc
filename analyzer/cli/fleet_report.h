// SPDX-License-Identifier: Apache-2.0
// The result of `memreel fleet`, before it becomes text or JSON.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <span>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/fleet_settings.h"
#include "formats/model/result.h"

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

/// Errors: no rank of these jobs has the heap that --heap named, and some have others.
Result<void> must_have_heap(std::span<const Fleet> jobs, const std::string& heap);

}  // namespace memreel::cli
