// The unit of growth: the program's steps, or a substitute for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

enum class IntervalSource : std::uint8_t {
  none,         // too little happened to form intervals
  marks,        // the program's own marks (analyzer/replay/steps.h)
  repetition,   // no marks, but an allocation that recurs at an even pace, as others do: a loop
  allocations,  // neither: runs of equally many allocations
  time,         // for a flight recorder: the intervals of its sums (leaks_population.h)
};

/// The trace of one heap cut into intervals. Interval i lies between ends[i - 1] and ends[i], the first from the
/// beginning.
struct Intervals {
  IntervalSource source = IntervalSource::none;
  std::string name;  // marks: the mark; repetition: the recurring line; time: the length of an interval; else empty
  std::vector<std::uint32_t> ends;  // indices of events, ascending
  bool last_is_open = false;        // what follows the last end is also an interval, not the program's later work

  std::uint32_t count() const { return static_cast<std::uint32_t>(ends.size()) + (last_is_open ? 1 : 0); }
  /// "step", or "interval" if nothing in the program corresponds to one.
  const char* unit() const {
    return source == IntervalSource::allocations || source == IntervalSource::time ? "interval" : "step";
  }
};

/// Marks come first, then repetition, then intervals; each only if it gives at least eight intervals.
///
/// Repetition: call sites with equal counts belong to the same loop if they occur at an even pace from the beginning to
/// the end (no pause of more than four times the usual number of allocations, hardly any of them outside). Of the loops
/// with a fair number of sites, the outermost is the one with the fewest intervals; sixteen intervals or more are
/// preferred, since small equal counts may be chance. An interval begins at the first occurrence of its first site.
Intervals find_intervals(const Trace& trace, HeapId heap);

/// A phrase that says which were used, e.g. "60 steps, from the marks \"step\"".
std::string text_of(const Intervals& intervals);

}  // namespace memreel
