// What `memreel fleet` found, before it is text or JSON.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <vector>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/settings.h"

namespace memreel::cli {

struct FleetReport {
  Fleet fleet;
  std::optional<CommonSetting> setting;        // when it was asked for
  std::vector<std::filesystem::path> skipped;  // found in directories, and no recordings
};

/// At most 100 columns wide. `top`: how many ranks, stacks and settings a table has at most.
void print_fleet_text(const FleetReport& report, std::size_t top, std::ostream& out);
void write_fleet_json(const FleetReport& report, std::ostream& out);
/// One page that needs nothing else: histogram, heat map over the mesh, the deciding rank beside the median.
void write_fleet_html(const FleetReport& report, std::ostream& out);

}  // namespace memreel::cli
