// A Perfetto trace: memory over time beside whatever else was traced, at https://ui.perfetto.dev.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Counters of every heap: live (requested), allocated (the same with rounding, if options.block_sizes say so) and
/// reserved bytes; live bytes of each pool, where a heap has pools beside the default one; and the bytes in use that
/// the driver spoke of. On the tracks of the threads: ranges and marks, emptied caches, and failed requests with what
/// was asked for, free, and the stack. Written event by event.
///
/// Times are the trace's; where it has none, an event takes a microsecond. Counters whose value does not change are not
/// repeated. Format: protos/perfetto/trace of google/perfetto (TracePacket, TrackDescriptor, TrackEvent).
void export_perfetto(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
