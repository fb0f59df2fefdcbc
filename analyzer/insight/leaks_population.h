// What one call site kept beyond the end of an interval, and for how long: all that a verdict about it is made of.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/insight/intervals.h"
#include "formats/model/trace.h"

namespace memreel {

/// An allocation that outlived the interval it was made in. Intervals count from 0; what comes after the last one is
/// count().
struct Held {
  static constexpr std::uint32_t alive = std::numeric_limits<std::uint32_t>::max();

  AllocationId id = AllocationId::none;
  std::uint32_t birth = 0;
  std::uint32_t death = alive;  // interval in which the program freed it; alive: not before the trace ends
  Bytes size;

  bool survives() const { return death == alive; }
};

/// The allocations of one stack of one heap; also of several stacks, to be judged as one.
struct Population {
  StackId stack = StackId::none;
  std::uint64_t allocations = 0;  // all that were ever made there
  std::uint64_t frees = 0;
  std::uint32_t last_free = Held::alive;  // interval of the last free; alive: nothing made there was ever freed
  std::vector<Held> held;                 // by id, and so by birth

  bool has_survivors() const { return allocations != frees; }
};

/// The populations of `heap` of which anything outlived its interval, by stack. Memory on the way: 4 bytes per
/// allocation of the trace, and 32 per one that outlived its interval.
///
/// What a heap gave to a pool inside it (segments of its child heaps) is the pool's reserve and left out.
std::vector<Population> populations(const Trace& trace, HeapId heap, const Intervals& intervals);

/// All of them as one, under the stack of the first.
Population merged(std::vector<Population> parts);

}  // namespace memreel
