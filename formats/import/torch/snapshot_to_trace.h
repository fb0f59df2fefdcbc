// Writes a Snapshot as the events of a trace.
#pragma once

#include "formats/import/torch/snapshot.h"
#include "formats/model/event.h"
#include "formats/model/result.h"
#include "formats/model/stack_text.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

// Actions that PyTorch was configured not to record (skip_actions, 2.10 and newer). Snapshots don't say so, but it
// shows: there are no entries of such an action, and the others occur twice at one address without it.

/// Which requests, frees, completions, and segment allocations or releases were skipped. Skipped failures (oom) can't
/// be distinguished from their absence.
EventKinds find_skipped_actions(const DeviceHistory& history);

/// Adds the missing half of each free: a request at the completion, or a completion at the request. If both were
/// skipped nothing is added, as their places are unknown.
void complete_frees(DeviceHistory& history, EventKinds skipped);

/// One heap "torch.cuda" per device (or "torch.xpu", from the snapshot's device_type), and one "torch.host" for pinned
/// host memory, with what the program itself page-locked in "cuda.host" (host_history.h). First, for each heap, its
/// settings and what it already held, all at the time of the first record; then the records of all devices by time,
/// those of one device in their own order, with the ranges of external_annotations before the records of the same
/// microsecond, and a pool_end and an empty_cache before the first segment released for them (for a private pool, only
/// its own). Times are nanoseconds since the Unix epoch; records without a time have the previous one's. `snapshot`
/// points into the tables of `writer`; the caller finishes it.
void write_trace(Snapshot snapshot, TraceWriter& writer);

}  // namespace memreel::torch
