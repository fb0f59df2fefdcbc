// SPDX-License-Identifier: Apache-2.0
// Finds room for what has none, where there is enough of it, but in pieces.
//
// One after the other, what is out is put where what is in the way costs the least, and that is out instead: size times
// time, where larger and longer ones cost a little more, since of two that take as much as one, each will find room
// more easily. What was put somewhere stays there for some steps, so that the search does not go in circles. Partial
// solutions as the state, and a tabu list with random tenures, are Blöchliger and Zufferey's (see improve.h). Other
// than there, no buffer gets heavier: where the room ends, nearly all of the memory is taken, and what is pushed in
// pushes out more.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

struct Tenant {
  Lifetime lifetime;
  Bytes size;
  Bytes offset;
  bool stays = false;   // where it is, whatever needs the room
  bool is_out = false;  // lies nowhere yet
};

/// Moves tenants, sorted by their first section, until none is out and all that don't stay end at `most` or below. The
/// effort is in pairs of tenants alive at the same time, some ten nanoseconds each. Returns whether it has found a
/// place for each; if not, offsets are of no use.
bool make_room(std::vector<Tenant>& tenants, Bytes most, std::uint64_t effort);

}  // namespace memreel::plan
