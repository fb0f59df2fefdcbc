// pprof's profile.proto, compressed with gzip, for `pprof` and other readers.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Sample types, named as in Go's heap profiles: alloc_objects, alloc_space (everything allocated up to the instant),
/// inuse_objects, inuse_space (live at the instant; shown by default). Bytes are requested bytes. Labels: device
/// ("cuda:0", "host"), heap, stream and pool ("default", or as in origin_text.h), thread.
/// Format: proto/profile.proto of google/pprof.
void export_pprof(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
