// Finds memory pools that were gone before the snapshot was taken: CUDA graphs' and MemPools.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "formats/import/torch/allocator_rules.h"
#include "formats/import/torch/empty_cache.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/event.h"

namespace memreel::torch {

/// Moves the entries of such pools from the default pool, which entries that don't tell their pool are taken to be of,
/// to the pools that they must be of. Those that the snapshot knows nothing of get the keys {1, 1}, {2, 2} and so on,
/// which no pool of PyTorch's has.
///
/// What is looked for are contradictions. Two segments are not of one pool when
/// - something was put in one of them, or it was got, while the other had a free block that best fit prefers
///   (pool class, stream and size being what they must be);
/// - both are ranges of expandable segments of one stream and class at the same time;
/// - one gave back unused memory when the other, with unused memory, did not, or with frees that were not completed, or
///   was needed later: a pool that gives back is over, so nothing more is got for it, put in it, or kept by it while
///   the cache is emptied;
/// - memory was given back in an order that is not the order within a pool, or that of another pool came between.
/// A segment is not of the default pool when it kept unused memory while the cache was emptied, or was given back after
/// the default pool's turn. Segments that nothing contradicts stay in the default pool; each of the others goes to a
/// pool that nothing contradicts, first of all to the one that served the request before (choose_pools()). Where the
/// history does not tell two pools apart, they behaved like one.
///
/// Only for histories that are complete. `runs` are all releases, in order.
void find_destroyed_pools(DeviceHistory& history, PoolStreams& pool_streams, const AllocatorRules& rules,
                          std::span<const ReleaseRun> runs);

/// What the program did that shows only in what was released, in front of entry `entry`: `pool_end`, or `empty_cache`,
/// of one pool that is over or of all.
struct ReleaseCall {
  std::size_t entry = 0;
  EventKind kind = EventKind::unknown;
  std::optional<PoolStreamId> pool_stream;  // of the pool; none: all
};
/// By entry. A pool gives memory back only when it is over. When several do so at once they are all named, in their
/// order (that of a hash table in the allocator), even those that gave back some before: each by itself where nothing
/// of the default pool was given back with them and the cache was not emptied by name, else in front of what all gave
/// back.
std::vector<ReleaseCall> find_release_calls(const DeviceHistory& history, const PoolStreams& pool_streams,
                                            std::span<const ReleaseRun> runs);

/// The key of an inferred pool.
constexpr bool is_inferred(const PoolKey& key) { return key.high != 0 && key.high == key.low; }

}  // namespace memreel::torch
