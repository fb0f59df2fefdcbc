// What growth is measured in: the steps of the program, or what stands in for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

enum class IntervalSource : std::uint8_t {
  none,         // too little happened to speak of intervals
  marks,        // the program's own marks (analyzer/replay/steps.h)
  repetition,   // no marks, but an allocation that comes back at an even pace, as others do: a loop
  allocations,  // neither: stretches of equally many allocations
  time,         // of a flight recorder: the intervals of its sums (leaks_folded.h)
};

/// The trace of one heap cut into intervals. Interval i lies between ends[i - 1] and ends[i], the first from the
/// beginning.
struct Intervals {
  IntervalSource source = IntervalSource::none;
  std::string
      name;  // of marks: the mark; of repetition: the line that comes back; of time: how long one is; else empty
  std::vector<std::uint32_t> ends;  // indices of events, ascending
  bool last_is_open = false;  // what follows the last end is an interval as well, not what the program did afterwards

  std::uint32_t count() const { return static_cast<std::uint32_t>(ends.size()) + (last_is_open ? 1 : 0); }
  /// "step", or "interval" when nothing in the program stands for one.
  const char* unit() const {
    return source == IntervalSource::allocations || source == IntervalSource::time ? "interval" : "step";
  }
};

/// Marks come first, then repetition, then intervals; each only when it gives at least eight intervals.
///
/// Repetition: call sites that are seen equally often belong to the same loop when they are seen at an even pace from
/// the beginning to the end (no pause of more than four times the usual number of allocations, hardly any of them
/// outside). Of the loops with a fair number of sites, the outermost is the one with fewest intervals; sixteen
/// intervals or more are preferred, since equal counts that are small may be chance. An interval begins where the first
/// of its sites is seen.
Intervals find_intervals(const Trace& trace, HeapId heap);

/// The sentence that says which were used, e.g. "60 steps, from the marks \"step\"".
std::string text_of(const Intervals& intervals);

}  // namespace memreel
