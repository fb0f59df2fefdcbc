// JSON Lines: one object per event.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Keys: event, time_ns, kind, device, heap, level, stream; if the event has them, pool, thread, address, size,
/// allocation, value, mark, phase, stack (a list of {function, file, line}, innermost first); on `alloc` events also
/// category, layer, phase, if options.notes has them.
void export_jsonl(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
