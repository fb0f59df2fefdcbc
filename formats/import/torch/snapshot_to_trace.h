// Writes a Snapshot as the events of a trace.
#pragma once

#include "formats/import/torch/snapshot.h"
#include "formats/model/result.h"
#include "formats/model/stack_text.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

/// One heap "torch.cuda" per device (or "torch.xpu", as the snapshot's device_type says), and one "torch.host" for
/// pinned host memory, with what the program page-locked itself in "cuda.host" (host_history.h); at the start, for each
/// heap, its settings and what it held already, all at the time of the first record; then the records of all devices by
/// time, those of one device in their own order, with the ranges of external_annotations in front of the records of the
/// same microsecond, and a pool_end and an empty_cache in front of the first segment that was released for them (of a
/// private pool: only that one's). Times are nanoseconds since the Unix epoch; records without a time have that of the
/// one before. `writer` is the one whose tables `snapshot` points into; the caller finishes it.
void write_trace(Snapshot snapshot, TraceWriter& writer);

}  // namespace memreel::torch
