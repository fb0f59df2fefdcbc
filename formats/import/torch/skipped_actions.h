// Actions that PyTorch was told not to record (skip_actions, 2.10 and newer). No snapshot says so, but it shows: of
// such an action there is no entry, and the others happen twice at one address without it.
#pragma once

#include "formats/import/torch/snapshot.h"
#include "formats/model/event_kinds.h"

namespace memreel::torch {

/// What was skipped of requests, frees, completions, and segments that were taken or given back. That failures (oom)
/// were skipped can't be told from that there were none.
EventKinds find_skipped_actions(const DeviceHistory& history);

/// Adds the half of each free that was skipped: a request where the free was completed, or a completion where it was
/// requested. Where both were skipped nothing is added: nobody knows where they would be.
void complete_frees(DeviceHistory& history, EventKinds skipped);

}  // namespace memreel::torch
