// Leaks from the sums of a flight recorder: its events may cover the last minutes, and a leak days.
#pragma once

#include <vector>

#include "analyzer/insight/intervals.h"
#include "analyzer/insight/leaks_population.h"
#include "formats/model/trace.h"

namespace memreel {

/// The intervals of the sums, from the first to the end of the trace. None if there are no sums.
Intervals folded_intervals(const Trace& trace);

/// populations() over these intervals, including what was allocated and freed before the first kept event. Of that only
/// sums are known, so it is assumed to have been freed in the order of allocation. At most some dozens of the freed
/// allocations represent all those of an interval.
std::vector<Population> folded_populations(const Trace& trace, HeapId heap, const Intervals& intervals);

}  // namespace memreel
