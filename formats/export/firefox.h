// A profile for the Firefox Profiler, https://profiler.firefox.com.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// A thread for each heap, with its allocations and frees (requested bytes) and their stacks: call trees of what was
/// allocated, and of what was retained in the selected range. Counters: live and reserved bytes of each heap. Marks,
/// and failed requests with their sizes, are markers in the first thread. Times are the trace's; if it has none, an
/// event takes a microsecond. The levels of the trace are tied.
///
/// Format: processed profile, version 66 (src/types/profile.ts of firefox-devtools/profiler), which newer versions
/// upgrade.
void export_firefox(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
