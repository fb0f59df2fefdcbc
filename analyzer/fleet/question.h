// SPDX-License-Identifier: Apache-2.0
// What a user asks of a fleet, on the command line of `memreel fleet` and of `memreel-fleet-mpi`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/map.h"
#include "formats/model/result.h"

namespace memreel {

/// Options as typed; empty or zero: the default.
struct FleetWords {
  std::string mesh, capacity, rank_pattern, heap, memory_limit, host_memory, job;
  std::optional<std::uint32_t> world_size;
  std::uint64_t time_limit = 0;  // in seconds
};

struct FleetQuestion {
  FleetOptions fleet;
  MapOptions map;
};

/// Sets the fleet's options, and of `map` the names and limits. Errors name the option.
Result<FleetQuestion> parse_question(const FleetWords& words);

}  // namespace memreel
