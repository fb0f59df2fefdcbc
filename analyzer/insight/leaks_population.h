// SPDX-License-Identifier: Apache-2.0
// What one call site kept beyond the end of a round, and for how long: the basis of every verdict.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
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
  std::uint32_t death = alive;  // round in which the program freed it; alive: not before its wind_up()
  Bytes size;

  bool survives() const { return death == alive; }
};

/// The end of a program, as one of its heaps sees it. What is freed then was held for as long as the program had a use
/// for it, and is judged as still held: an interpreter that ends frees every list; a function that returns, what it
/// kept for its loop.
struct WindUp {
  std::uint32_t last_round;  // event behind the end of the last round that is known to have ended
  std::uint32_t all;         // event behind the heap's last allocation
  std::uint32_t life;        // event that destroys the pool, if it is not used again; else the number of events

  /// Whether the free at event `at`, of what event `made` allocated, only winds up.
  bool frees(std::uint32_t at, std::uint32_t made) const {
    return at >= last_round && (made < last_round || at >= all);
  }
};

/// Rounds that are less than half of what the heap did don't tell when its program winds up, nor does a last one that
/// is still open.
WindUp wind_up(const Trace& trace, HeapId heap, const Rounds& rounds);

/// WindUp::life. What is freed from there on was not freed by the program.
std::uint32_t end_of_life(const Trace& trace, HeapId heap);

/// The allocations of one stack of one heap, or of several stacks judged as one.
struct Population {
  StackId stack = StackId::none;
  std::uint64_t allocations = 0;          // all ever made there
  std::uint64_t frees = 0;                // none of those that only wind up
  std::uint32_t last_free = Held::alive;  // round of the last free; alive: nothing allocated there was ever freed
  std::vector<Held> held;                 // by id, and so by birth

  bool has_survivors() const { return allocations != frees; }
};

/// A heap, and the rounds by which its allocations are judged.
struct HeapInRounds {
  HeapId heap = HeapId::none;
  Rounds rounds;
  WindUp end{};  // wind_up() of both
};

HeapInRounds in_rounds(const Trace& trace, HeapId heap, Rounds rounds);

/// For each of `heaps`, which differ, its populations with anything that outlived its round, by stack: one walk over
/// the events. Temporary memory: 4 bytes per allocation of the trace, and 32 per allocation that outlived its round.
///
/// Excludes what a heap gave to a pool inside it (segments of its child heaps), which is the pool's reserve.
std::vector<std::vector<Population>> populations(const Trace& trace, std::span<const HeapInRounds> heaps);

/// Merges them into one, under the stack of the first.
Population merged(std::vector<Population> parts);

// A flight recorder's events may cover the last minutes, and a leak days: its sums go further back.

/// The intervals of the sums, from the first to the end of the trace. None if there are no sums.
Rounds folded_rounds(const Trace& trace);

/// populations() over these intervals, including what was allocated and freed before the first kept event. Of that only
/// sums are known, so it is assumed to have been freed in the order of allocation. At most some dozens of the freed
/// allocations represent all those of an interval.
std::vector<Population> folded_populations(const Trace& trace, HeapId heap, const Rounds& intervals);

}  // namespace memreel
