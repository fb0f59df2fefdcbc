// SPDX-License-Identifier: Apache-2.0
// Writes a Snapshot as the events of a trace.
#pragma once

#include "formats/import/torch/empty_cache.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"
#include "formats/writer/trace_output.h"

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
/// host memory, with what the program itself page-locked in "cuda.host". First, for each heap, its
/// settings and what it already held, all at the time of the first record; then the records of all devices by time,
/// those of one device in their own order, with the ranges of external_annotations before the records of the same
/// microsecond, and a pool_end and an empty_cache before the first segment released for them (for a private pool, only
/// its own). Times are nanoseconds since the Unix epoch; records without a time have the previous one's. `snapshot`
/// points into the tables of `writer`; the caller finishes it.
void write_trace(Snapshot snapshot, ImportOutput& writer);

// The history of PyTorch's pinned host memory: `host_traces` of a snapshot.
//
// Source: CachingHostAllocatorImpl in ATen/core/CachingHostAllocator.h of PyTorch 2.15 and the pinned memory part of
// ATen/cuda/CachingHostAllocator.cpp. The policy torch.host (analyzer/replay/policies/torch_host.h) implements its
// behaviour; this tells its records from others.

/// One history, split into its sources.
struct HostHistory {
  DeviceHistory allocator;            // the caching allocator's
  std::vector<ReleaseCall> releases;  // the allocator's empty_cache, preceded by pool_end for destroyed pools
  DeviceHistory registered;           // what the program itself page-locked (cudaHostRegister)
};

/// Separates the program's own registrations from the allocator's actions: a registration has a size that the allocator
/// does not make, or comes while the allocator has a block that fits, or is released while the allocator keeps its
/// cache. The allocator releases memory only if it is too large to be cached, and in empty_cache(), which releases
/// everything free in the default pool and in destroyed pools.
///
/// Blocks in the reserve segment have no segments of their own: a single segment for all of them precedes the first
/// segment that the allocator got, at the address of its first block. What empty_cache() drops of it is lost.
///
/// `is_whole`: the history has its beginning; otherwise only unusual sizes count as registrations, and the reserve
/// segment is not found.
HostHistory split_host_history(const DeviceHistory& history, const PoolStreams& pool_streams,
                               const TorchHostSettings& rules, bool is_whole);

}  // namespace memreel::torch
