// A Perfetto trace: memory over time next to whatever else was traced, at https://ui.perfetto.dev.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Counters for every heap: live (requested), allocated (with rounding, if options.block_sizes is set) and reserved
/// bytes; live bytes of each pool, if a heap has pools besides the default one; and the bytes in use that the driver
/// reported. On the threads' tracks: ranges and marks, emptied caches, and failed requests with the requested and free
/// bytes and the stack. Written event by event.
///
/// Times are the trace's; if it has none, an event takes a microsecond. Unchanged counter values are not repeated.
/// Format: protos/perfetto/trace of google/perfetto (TracePacket, TrackDescriptor, TrackEvent).
void export_perfetto(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
