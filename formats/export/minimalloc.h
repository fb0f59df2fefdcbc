// Buffers with lifetimes, the input of static memory planners: the CSV of google/minimalloc, which other planners also
// read.
#pragma once

#include <iosfwd>

#include "formats/model/trace.h"

namespace memreel {

/// Columns id, lower, upper, size; a line for each allocation, in order of allocation. `id` is its number in the trace,
/// `size` the requested bytes. Time is the index of the event in the trace: a buffer lives from its allocation up to,
/// but not including, its free_completed; one that was never freed, to the end.
///
/// The format describes a single memory, while a trace may have several heaps. Each heap's times start after the
/// previous heap's, so no two overlap: a plan for all of them is a plan for each.
void export_minimalloc(const Trace& trace, std::ostream& out);

}  // namespace memreel
