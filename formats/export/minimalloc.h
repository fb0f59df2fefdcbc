// Buffers with lifetimes, as planners of static memory take them: the CSV of google/minimalloc, which others read too.
#pragma once

#include <iosfwd>

#include "formats/model/trace.h"

namespace memreel {

/// Columns id, lower, upper, size; a line for each allocation, in the order in which they were made. `id` is its
/// number in the trace, `size` the bytes requested. Time is the index of the event in the trace: a buffer lives from
/// its allocation up to, but not including, the completion of its free; one that was never freed, to the end.
///
/// The format describes one memory, a trace may hold several heaps. Each heap's time begins after that of the one
/// before, so that none shares a time with another: a plan of them all is a plan of each.
void export_minimalloc(const Trace& trace, std::ostream& out);

}  // namespace memreel
