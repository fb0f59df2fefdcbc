// Finds the calls of torch.cuda.empty_cache() in a history: they are the program's, but leave no record of their own.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/import/torch/snapshot.h"
#include "formats/model/tables.h"

namespace memreel::torch {

/// The settings of the allocator that decide when it releases memory by itself.
struct ReleaseSettings {
  double garbage_collection_threshold = 0;  // 0: off
  std::uint64_t max_split_size = 0;         // bytes; 0: unlimited
  bool rounds_to_power_of_two = false;      // roundup_power2_divisions is in use

  static ReleaseSettings of(const Snapshot& snapshot);
};

/// The entries (ascending) in front of which the program emptied the cache. They begin a run of segment_free or
/// segment_unmap with one stack; the free_completed records of the call's own synchronisation precede it.
///
/// The allocator also releases memory by itself, but only inside a malloc that finds no block, so such a run is
/// followed at once by the segment that malloc then gets, or by its oom, with the same stack
/// (`DeviceCachingAllocator::malloc` in c10/cuda/CUDACachingAllocator.cpp). A run is the program's when it
///   1. comes from a Python function named empty_cache, or
///   2. is followed by anything else, or by another stack, or
///   3. released a block that could have served the very malloc that follows, or
///   4. is followed by a segment that fitted without any release: with it the device would have held no more than it
///      held at another time, and garbage collection was not due.
/// 3 and 4 find calls from native code, e.g. cuDNN's benchmark mode in a convolution, which share the stack of the
/// operator's next malloc. What remains ambiguous is the allocator's. Calls that released nothing leave no trace.
///
/// `reserved` is what the device held when the history began, in bytes.
std::vector<std::size_t> find_empty_caches(const DeviceHistory& history, std::uint64_t reserved, const Places& places,
                                           const ReleaseSettings& settings, const Tables& tables);

}  // namespace memreel::torch
