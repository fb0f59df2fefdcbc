// Actions that PyTorch was configured not to record (skip_actions, 2.10 and newer). Snapshots don't say so, but it
// shows: there are no entries of such an action, and the others occur twice at one address without it.
#pragma once

#include "formats/import/torch/snapshot.h"
#include "formats/model/event_kinds.h"

namespace memreel::torch {

/// Which requests, frees, completions, and segment allocations or releases were skipped. Skipped failures (oom) can't
/// be distinguished from their absence.
EventKinds find_skipped_actions(const DeviceHistory& history);

/// Adds the missing half of each free: a request at the completion, or a completion at the request. If both were
/// skipped nothing is added, as their places are unknown.
void complete_frees(DeviceHistory& history, EventKinds skipped);

}  // namespace memreel::torch
