// SPDX-License-Identifier: Apache-2.0
// A job as tables for other tools: ranks, settings, sites, timeline (docs/fleet.md lists their columns).
#pragma once

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/fleet_settings.h"

namespace memreel {

struct FleetTable {
  std::string name;     // "ranks.parquet"
  std::string content;  // the file's bytes
};

/// `setting`: null if none was searched; its table then has no rows.
std::vector<FleetTable> fleet_tables(const Fleet& fleet, const CommonSetting* setting);

}  // namespace memreel
