// SPDX-License-Identifier: Apache-2.0
// Finds the calls of torch.cuda.empty_cache() in a history: the program made them, but they leave no record of their
// own.
#pragma once

#include <span>

#include "formats/import/torch/preexisting.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
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
///    released later, or, if entries state their pools, not at all, or
/// 6. is followed by a segment for a private pool, and is more than garbage collection releases: during a capture or in
///    a MemPool's context (`captures_underway`), a malloc does not release cached blocks before it retries.
/// Rules 3, 4 and 6 find calls from native code, e.g. cuDNN's benchmark mode in a convolution, which share the stack of
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

// Finds memory pools destroyed before the snapshot was taken: CUDA graphs' and MemPools.

class Effort;

/// Moves the entries of such pools out of the default pool, to which entries without a pool are assigned at first.
/// Pools that the snapshot does not know get the keys {1, 1}, {2, 2} and so on, which no PyTorch pool has.
///
/// The search looks for contradictions. Two segments are in different pools if
/// - one of them was used or allocated while the other had a free block that best fit prefers (with the same pool
///   class, stream and size rules);
/// - both are ranges of expandable segments of one stream and class at the same time;
/// - one released unused memory when the other, with unused memory, did not, or had frees not yet completed, or was
///   needed later: a pool that releases is destroyed, so nothing more is allocated for it or in it, or kept by it while
///   the cache is emptied;
/// - memory was released in an order that is not the order within a pool, or with another pool's in between.
/// A segment is not in the default pool if it kept unused memory while the cache was emptied, or was released after the
/// default pool's turn. Segments without contradictions stay in the default pool; each of the others goes to a pool
/// without contradictions, preferably the one that served the previous request (choose_pools()). If the history can't
/// distinguish two pools, they behaved like one.
///
/// Only if what was held before the history is known: `initial`, whose segments and allocations are moved likewise.
/// `runs` are all releases, in order. `effort` is spent on the search; if it ends, nothing is moved.
void find_destroyed_pools(DeviceHistory& history, PreexistingMemory& initial, PoolStreams& pool_streams,
                          const TorchSettings& rules, std::span<const ReleaseRun> runs, Effort& effort);

/// A program action that shows only in what was released, to be inserted before entry `entry`: `pool_end`, or
/// `empty_cache`, of one destroyed pool or of all.
struct ReleaseCall {
  std::size_t entry = 0;
  EventKind kind = EventKind::unknown;
  std::optional<PoolStreamId> pool_stream;  // of the pool; none: all
};
/// By entry. A pool releases memory only when it is destroyed. If several do at once, all are listed, in their order
/// (that of a hash table in the allocator), even those that released some memory earlier: individually if nothing of
/// the default pool was released with them and the cache was not emptied by name, else before everything that was
/// released.
std::vector<ReleaseCall> find_release_calls(const DeviceHistory& history, const PoolStreams& pool_streams,
                                            std::span<const ReleaseRun> runs);

/// Whether it is the key of an inferred pool.
constexpr bool is_inferred(const PoolKey& key) { return key.high != 0 && key.high == key.low; }

}  // namespace memreel::torch
