// Comma-separated values (RFC 4180), one line per event, the column names first.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Columns: event, time_ns, kind, device, heap, level, pool, stream, thread, address, size, allocation, value, mark,
/// stack, category, layer, phase. `stack` joins its frames with ';', innermost first; the last three come from
/// options.notes and are set for `alloc` events. Fields that an event does not have are empty.
void export_csv(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
