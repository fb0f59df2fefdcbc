// Finds the calls of torch.cuda.empty_cache() in a history: the program made them, but they leave no record of their
// own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "formats/import/torch/preexisting.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/tables.h"
#include "formats/torch/settings.h"

namespace memreel::torch {

/// Consecutive segment_free and segment_unmap entries with the same stack.
struct ReleaseRun {
  std::size_t first = 0, end = 0;  // entries
  bool is_call = false;            // requested by the program; else part of a malloc
  bool is_empty_cache = false;     // ... through empty_cache()

  friend bool operator==(const ReleaseRun&, const ReleaseRun&) = default;
};

/// All releases, in order, and which of them are calls. A call's own synchronisation leaves free_completed records
/// before it.
///
/// The allocator also releases memory on its own, but only inside a malloc that finds no block, so such a run is
/// followed at once by the segment that malloc then gets, or by its oom, with the same stack
/// (`DeviceCachingAllocator::malloc` in c10/cuda/CUDACachingAllocator.cpp). A run is the program's if it
/// 1. comes from a Python function named empty_cache, or
/// 2. is followed by anything else, or by another stack (for expandable segments with a max_split_size, an alloc is
///    enough), or
/// 3. released a block that could have served the very malloc that follows (with those settings: if any free block
///    could), or
/// 4. is followed by a segment that would have fitted without any release: the device held as much, or as much was
///    requested, at another time, and garbage collection was not due. It never was if every such run left nothing
///    unused, or
/// 5. began with memory of a private pool although the default pool, which comes first, had unused memory: it was
///    released later, or, if entries state their pools, not at all.
/// Rules 3 and 4 find calls from native code, e.g. cuDNN's benchmark mode in a convolution, which share the stack of
/// the operator's next malloc. Ambiguous runs are attributed to the allocator. Calls that released nothing leave no
/// trace.
///
/// `before` is what the device held when the history began.
std::vector<ReleaseRun> find_releases(const DeviceHistory& history, const PreexistingMemory& before,
                                      const PoolStreams& pool_streams, const TorchSettings& rules,
                                      const Tables& tables);

struct DeviceReleases {
  const DeviceHistory* history = nullptr;
  std::vector<ReleaseRun>* runs = nullptr;
};

/// torch.cuda.empty_cache() proceeds from device to device: runs that continue where a call on another device ended
/// become calls.
void join_calls(std::span<const DeviceReleases> devices);

}  // namespace memreel::torch
