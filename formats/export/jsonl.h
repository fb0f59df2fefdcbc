// JSON Lines: one object per event.
#pragma once

#include <iosfwd>

#include "formats/model/trace.h"

namespace memreel {

/// Keys: event, time_ns, kind, device, heap, level, stream; and where the event has them pool, thread, address, size,
/// allocation, value, mark, phase, stack (a list of {function, file, line}, innermost first).
void export_jsonl(const Trace& trace, std::ostream& out);

}  // namespace memreel
