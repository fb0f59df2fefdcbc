// SPDX-License-Identifier: Apache-2.0
// A recorded heap at an instant: its segments, with their blocks and the gaps between them.
#pragma once

#include <functional>
#include <span>
#include <tuple>

#include "formats/model/live_set.h"
#include "formats/model/trace.h"

namespace memreel {

// How much of its segment each allocation takes: requested bytes, rounding, and the remainder that was not split off.

/// Derived from a recording by the rules of its allocators. Memory: 8 bytes per allocation.
struct RecordedBlocks {
  std::vector<Bytes> sizes;       // by AllocationId; at least the requested bytes
  std::vector<Bytes> large_runs;  // by HeapId: the unit in which the large pools map and unmap (expandable segments)
};

/// Recordings have requests and addresses, not blocks. For PyTorch's allocator, the blocks follow from its rules
/// (torch_settings.h) and from the positions of neighbours: a request of the large pools takes the front of a free
/// block, and also its remainder if that is 1 MiB or less or the request is oversize. What was there when the recording
/// began is divided as Trace::initial_heaps says. The rules of other allocators are not known here: their blocks are as
/// large as requested.
RecordedBlocks recorded_blocks(const Trace& trace);

/// The same event by event, for callers that do not hold the whole trace.
class BlockSizes {
 public:
  /// `tables` must outlive it.
  explicit BlockSizes(const Tables& tables, std::span<const InitialHeap> initial_heaps = {});
  BlockSizes(const BlockSizes&) = delete;
  BlockSizes& operator=(const BlockSizes&) = delete;
  ~BlockSizes();

  /// Processes the next event of the recording; events must come in order and without gaps. Returns what an allocation
  /// takes, nothing for other events.
  std::optional<Bytes> see(const Event& event) {
    return see(event.kind, event.origin, has_value(event.kind) ? event.value : event.address.value, event.size);
  }
  /// The same from the columns that it looks at.
  std::optional<Bytes> see(EventKind kind, OriginId origin, std::uint64_t address_or_value, Bytes size);
  /// The unit in which the large pools of a heap map and unmap, by its latest settings.
  Bytes large_run(HeapId heap) const;

 private:
  class TorchBlocks;

  void set(HeapId heap, SettingsId settings);

  const Tables& tables_;
  std::vector<TorchBlocks> heaps_;  // by HeapId
};

/// Whether it is what PyTorch requests of the C library: host memory that is not pinned, by an allocator that no
/// setting of PyTorch changes.
bool is_pageable_heap(const Tables& tables, HeapId heap);

enum class BlockUse : std::uint8_t { live, pending, free };

/// "live", "pending", "free".
std::string_view name_of(BlockUse use);

/// A stretch of a segment with a single use.
struct HeapBlock {
  Address address;
  Bytes size;
  BlockUse use = BlockUse::free;
  AllocationId allocation = AllocationId::none;  // none if free
  Bytes requested;                               // of the allocation; 0 if free

  Address end() const { return address + size; }
};

/// Interchangeable memory: free memory serves requests of its own pool, stream and size class only. PyTorch has two
/// size classes; other allocators have one, which is not small.
struct PoolStreamKey {
  PoolId pool = PoolId::default_pool;
  StreamId stream = StreamId::default_stream;
  bool small = false;

  friend auto operator<=>(const PoolStreamKey& a, const PoolStreamKey& b) {
    return std::tuple(index(a.pool), index(a.stream), a.small) <=> std::tuple(index(b.pool), index(b.stream), b.small);
  }
  friend bool operator==(const PoolStreamKey&, const PoolStreamKey&) = default;
};

struct HeapSegment {
  Address address;
  Bytes size;
  PoolStreamKey pool_stream;
  bool mapped = false;            // mapped memory of an expandable segment
  std::uint32_t first_block = 0;  // index into HeapMap::blocks
  std::uint32_t block_count = 0;  // including gaps
  Bytes live, pending;            // of its blocks
  Bytes largest_free;
  Bytes unreleasable;  // free, but not releasable because of live neighbours

  Bytes used() const { return live + pending; }
  Bytes free() const { return size - used(); }
  Address end() const { return address + size; }
};

/// One heap at one instant. Blocks don't overlap; together they fill the segments.
struct HeapMap {
  HeapId heap = HeapId::none;
  std::uint64_t events = 0;           // number of events so far
  std::vector<HeapSegment> segments;  // by address
  std::vector<HeapBlock> blocks;      // by address
  Bytes reserved, live, pending;      // sums over segments
  Bytes requested;                    // of the live blocks
  Bytes unreleasable;
  Bytes outside;  // allocated outside known segments: the heap records none, or the recording began late

  Bytes free() const { return reserved - live - pending; }
  /// 0 if nothing is free.
  Bytes largest_free() const;
  /// The share of reserved memory that is not allocated: 1 - live/reserved; 0 if nothing is reserved.
  double fragmentation() const;
  std::span<const HeapBlock> blocks_of(const HeapSegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.block_count);
  }
};

/// The part of `snapshot` that belongs to `heap`.
///
/// Unreleasable in a segment are its free bytes while anything in it is live or pending; in an expandable segment,
/// those in runs (2 MiB small, 20 MiB large) of which something is. An allocator can release what is entirely free, and
/// PyTorch's does before it fails.
HeapMap heap_map(const Tables& tables, const HeapSnapshot& snapshot, HeapId heap, const RecordedBlocks& blocks);

/// Calls `visit` with the state after each of `instants`: numbers of events, ascending. One pass over the trace.
void for_each_snapshot(const Trace& trace, std::span<const std::uint64_t> instants,
                       const std::function<void(const HeapSnapshot&)>& visit);

// Free memory by the pool, stream and size class that may use it.

/// What one pool, stream and size class held.
struct PoolStreamUse {
  PoolStreamKey pool_stream;
  std::uint64_t segments = 0;
  Bytes reserved, live, pending, largest_free, unreleasable;

  Bytes free() const { return reserved - live - pending; }
};

/// For a heap at an instant; by free memory, descending.
std::vector<PoolStreamUse> pool_streams_of(const HeapMap& map);

/// Free memory in gaps large enough for a request that can't use them.
struct Stranded {
  Bytes other_streams;  // of its pool and size class
  Bytes other_pools;    // of another pool or size class, on any stream
};

Stranded stranded_for(const HeapMap& map, const PoolStreamKey& pool_stream, Bytes requested);

}  // namespace memreel
