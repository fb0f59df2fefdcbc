// SPDX-License-Identifier: Apache-2.0
// What one call site kept beyond the end of a round, and for how long: the basis of every verdict.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/insight/rounds.h"
#include "formats/model/trace.h"

namespace memreel {

/// An allocation that outlived the round it was made in. Rounds count from 0; what follows the last one is
/// count().
struct Held {
  static constexpr std::uint32_t alive = std::numeric_limits<std::uint32_t>::max();

  AllocationId id = AllocationId::none;
  std::uint32_t birth = 0;
  std::uint32_t death = alive;  // round in which the program freed it; alive: not freed before the trace ends
  Bytes size;

  bool survives() const { return death == alive; }
};

/// The allocations of one stack of one heap, or of several stacks judged as one.
struct Population {
  StackId stack = StackId::none;
  std::uint64_t allocations = 0;  // all ever made there
  std::uint64_t frees = 0;
  std::uint32_t last_free = Held::alive;  // round of the last free; alive: nothing allocated there was ever freed
  std::vector<Held> held;                 // by id, and so by birth

  bool has_survivors() const { return allocations != frees; }
};

/// The populations of `heap` with anything that outlived its round, by stack. Temporary memory: 4 bytes per
/// allocation of the trace, and 32 per allocation that outlived its round.
///
/// Excludes what the heap gave to a pool inside it (segments of its child heaps), which is the pool's reserve.
std::vector<Population> populations(const Trace& trace, HeapId heap, const Rounds& rounds);

/// Merges them into one, under the stack of the first.
Population merged(std::vector<Population> parts);

/// The event at which the heap's life ends: the destruction of a pool that is not used again. Else the number of
/// events. What is freed from there on was not freed by the program.
std::uint32_t end_of_life(const Trace& trace, HeapId heap);

// A flight recorder's events may cover the last minutes, and a leak days: its sums go further back.

/// The intervals of the sums, from the first to the end of the trace. None if there are no sums.
Rounds folded_rounds(const Trace& trace);

/// populations() over these intervals, including what was allocated and freed before the first kept event. Of that only
/// sums are known, so it is assumed to have been freed in the order of allocation. At most some dozens of the freed
/// allocations represent all those of an interval.
std::vector<Population> folded_populations(const Trace& trace, HeapId heap, const Rounds& intervals);

}  // namespace memreel
