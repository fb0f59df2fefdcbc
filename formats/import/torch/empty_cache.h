// Finds the calls of torch.cuda.empty_cache() in a history: they are the program's, but leave no record of their own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "formats/import/torch/allocator_rules.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/tables.h"

namespace memreel::torch {

/// Consecutive segment_free and segment_unmap with one stack.
struct ReleaseRun {
  std::size_t first = 0, end = 0;  // entries
  bool is_call = false;            // the program asked for it; else it is part of a malloc
  bool is_empty_cache = false;     // ... by that name

  friend bool operator==(const ReleaseRun&, const ReleaseRun&) = default;
};

/// All releases, in order, and which of them are calls. The free_completed records of a call's own synchronisation
/// precede it.
///
/// The allocator also releases memory by itself, but only inside a malloc that finds no block, so such a run is
/// followed at once by the segment that malloc then gets, or by its oom, with the same stack
/// (`DeviceCachingAllocator::malloc` in c10/cuda/CUDACachingAllocator.cpp). A run is the program's when it
///   1. comes from a Python function named empty_cache, or
///   2. is followed by anything else, or by another stack (expandable segments with a max_split_size: an alloc will
///   do),
///      or
///   3. released a block that could have served the very malloc that follows (with those settings: when any free block
///      could), or
///   4. is followed by a segment that fitted without any release: the device held as much, or as much was asked for,
///      at another time, and garbage collection was not due. It never was where every such run left nothing unused, or
///   5. began with memory of a private pool though the default pool, which comes first, had unused memory: it was
///      released later, or, where entries say their pools, it was not.
/// 3 and 4 find calls from native code, e.g. cuDNN's benchmark mode in a convolution, which share the stack of the
/// operator's next malloc. What remains ambiguous is the allocator's. Calls that released nothing leave no trace.
///
/// `reserved` is what the device held when the history began.
std::vector<ReleaseRun> find_releases(const DeviceHistory& history, Bytes reserved, const PoolStreams& pool_streams,
                                      const AllocatorRules& rules, const Tables& tables);

struct DeviceReleases {
  const DeviceHistory* history = nullptr;
  std::vector<ReleaseRun>* runs = nullptr;
};

/// torch.cuda.empty_cache() goes from device to device: runs that go on where a call on another device ended become
/// calls.
void join_calls(std::span<const DeviceReleases> devices);

}  // namespace memreel::torch
