// SPDX-License-Identifier: Apache-2.0
// A job as tables for other tools: ranks, settings, sites, timeline (docs/fleet.md lists their columns).
#pragma once

#include <array>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/fleet_settings.h"

namespace memreel {

struct FleetTable {
  std::string name;
  std::string content;  // the file's bytes
};

inline constexpr std::array<std::string_view, 4> fleet_table_names{"ranks.parquet", "settings.parquet", "sites.parquet",
                                                                   "timeline.parquet"};

/// In the order of their names. `setting`: null if none was searched; its table then has no rows.
std::vector<FleetTable> fleet_tables(const Fleet& fleet, const CommonSetting* setting);

}  // namespace memreel
