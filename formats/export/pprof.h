// pprof's profile.proto, compressed with gzip, for `pprof` and whatever else reads it.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Sample types, with the names that Go's heap profiles have: alloc_objects, alloc_space (all that had been made until
/// the instant), inuse_objects, inuse_space (what was live then; shown unless another is asked for). Bytes are those
/// requested. Labels: device ("cuda:0", "host"), heap, stream and pool ("default", or as
/// origin_text.h has them), thread.
/// Format: proto/profile.proto of google/pprof.
void export_pprof(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
