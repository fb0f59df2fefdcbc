// Verification of BFC allocators (TensorFlow, XLA, JAX) whose history an XPlane profile recorded.
//
// The device answers with the regions deduced by the importer (formats/import/xplane/regions.h): a request for a region
// gets its address, a request beyond them was refused. In addition to addresses and regions, the bytes in use are
// compared after every event, which shows the size handed out for each request.
//
// A profile states neither whether the pool grew, which the regions show, nor whether it was partitioned: where that is
// possible, both are tried.
#pragma once

#include "analyzer/engine/prepared.h"
#include "analyzer/replay/verify.h"
#include "formats/model/trace.h"

namespace memreel {

/// Whether a heap belongs to such an allocator.
bool is_bfc(const Prepared& heap);

Verification verify_bfc(const Trace& trace, const Prepared& heap);

}  // namespace memreel
