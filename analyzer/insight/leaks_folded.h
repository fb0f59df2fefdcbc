// What a flight recorder's sums say of leaks: its events may be of the last minutes, and a leak of days.
#pragma once

#include <vector>

#include "analyzer/insight/intervals.h"
#include "analyzer/insight/leaks_population.h"
#include "formats/model/trace.h"

namespace memreel {

/// The intervals of the sums, from the first to the end of the trace. None when there are no sums.
Intervals folded_intervals(const Trace& trace);

/// populations() over these intervals, with what was made and freed before the first event that is kept. Of that only
/// sums are known: it is taken to have been freed in the order in which it was made. Of what was freed, at most some
/// dozens of allocations stand for all of an interval.
std::vector<Population> folded_populations(const Trace& trace, HeapId heap, const Intervals& intervals);

}  // namespace memreel
