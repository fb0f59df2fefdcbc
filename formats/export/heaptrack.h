// A heaptrack recording, for heaptrack_gui and heaptrack_print.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Every allocation and free of the heaps of device_heaps.h, with requested bytes, times in milliseconds, and reserved
/// memory as resident memory; a heap is the outermost frame of its stacks. The levels of the trace are tied.
/// Text of format version 3 (src/analyze/accumulatedtracedata.cpp of KDE/heaptrack), compressed with gzip. heaptrack
/// shows no frames outside a function called main.
void export_heaptrack(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
