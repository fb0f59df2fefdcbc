// The parts of assemble_fleet(), each of which fills in its own members.
#pragma once

#include "analyzer/fleet/fleet.h"

namespace memreel::fleet_parts {

/// Rows, classes and headroom must be set before the others are called.
void find_classes(Fleet& fleet);
void find_decision(Fleet& fleet);
void find_imbalance(Fleet& fleet);
void find_outliers(Fleet& fleet);
void find_leaks_and_sites(Fleet& fleet);

}  // namespace memreel::fleet_parts
