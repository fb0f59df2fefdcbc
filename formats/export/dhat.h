// DHAT's JSON, for Valgrind's dh_view.html and the Firefox Profiler.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// A program point for each stack and heap, with requested bytes: the total allocated, its own maximum, live at the
/// time when all devices' memory peaked, and live at the end. Times are microseconds since the trace began. The levels
/// of the trace are tied; heaps are those of device_heaps.h, each the outermost frame of its stacks. Format: version 2,
/// as in Valgrind's dhat/dh_main.c.
void export_dhat(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
