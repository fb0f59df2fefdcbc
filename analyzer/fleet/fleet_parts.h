// SPDX-License-Identifier: Apache-2.0
// The parts of assemble_fleet(), each of which fills in its own members.
#pragma once

#include "analyzer/fleet/fleet.h"

namespace memreel {

inline bool ran_at_once(const RankSummary& a, const RankSummary& b) { return a.begin < b.end && b.begin < a.end; }

/// Whether two recordings of one rank are of two processes that held memory at the same time: ranks of two jobs, or
/// workers of one task.
bool are_two_processes(const RankSummary& a, const RankSummary& b);

}  // namespace memreel

namespace memreel::fleet_parts {

/// Rows and their places on the mesh must be set before this is called, classes and headroom before the others.
void find_classes(Fleet& fleet);
void find_decision(Fleet& fleet);
void find_imbalance(Fleet& fleet);
void find_outliers(Fleet& fleet);
void find_leaks_and_sites(Fleet& fleet);

/// A rank's place among those that differ in more than their data: "pp1 tp0". Empty: no mesh.
std::string stage_of(const FleetRow& row);

}  // namespace memreel::fleet_parts
