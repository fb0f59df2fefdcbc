// What a recorded heap looked like at an instant: its segments, and in each the blocks and the gaps between them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/insight/block_sizes.h"
#include "formats/model/live_set.h"
#include "formats/model/trace.h"

namespace memreel {

enum class BlockUse : std::uint8_t { live, pending, free };

/// "live", "pending", "free".
std::string_view name_of(BlockUse use);

/// A stretch of a segment, of one use.
struct HeapBlock {
  Address address;
  Bytes size;
  BlockUse use = BlockUse::free;
  AllocationId allocation = AllocationId::none;  // of those that are not free
  Bytes requested;                               // likewise

  Address end() const { return address + size; }
};

/// What may stand in for one another: free memory serves requests of its own pool, stream and size class only. PyTorch
/// has two size classes; other allocators have one, which is not small.
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
  bool mapped = false;            // of an expandable segment: memory that was mapped
  std::uint32_t first_block = 0;  // of HeapMap::blocks
  std::uint32_t block_count = 0;  // gaps included
  Bytes live, pending;            // of its blocks
  Bytes largest_free;
  Bytes unreleasable;  // free, and can't be given back because of what lives beside it

  Bytes used() const { return live + pending; }
  Bytes free() const { return size - used(); }
  Address end() const { return address + size; }
};

/// One heap at one instant. Blocks don't overlap; together they fill the segments.
struct HeapMap {
  HeapId heap = HeapId::none;
  std::uint64_t events = 0;           // how many had happened
  std::vector<HeapSegment> segments;  // by address
  std::vector<HeapBlock> blocks;      // by address
  Bytes reserved, live, pending;      // sums over segments
  Bytes requested;                    // of the live blocks
  Bytes unreleasable;
  Bytes outside;  // allocated where no segment is known: the heap records none, or the recording began late

  Bytes free() const { return reserved - live - pending; }
  /// 0 when nothing is free.
  Bytes largest_free() const;
  /// Share of the reserved memory that is not allocated: 1 - live/reserved; 0 when nothing is reserved.
  double fragmentation() const;
  std::span<const HeapBlock> blocks_of(const HeapSegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.block_count);
  }
};

/// Of all of `snapshot`, what belongs to `heap`.
///
/// Unreleasable of a segment are its free bytes while anything in it is live or pending; of an expandable segment those
/// in runs (2 MiB small, 20 MiB large) of which something is. What is wholly free an allocator can give back, and
/// PyTorch's does before it fails.
HeapMap heap_map(const Tables& tables, const HeapSnapshot& snapshot, HeapId heap, const RecordedBlocks& blocks);

/// Calls `visit` with the state after each of `instants`: numbers of events, ascending. One pass over the trace.
void for_each_snapshot(const Trace& trace, std::span<const std::uint64_t> instants,
                       const std::function<void(const HeapSnapshot&)>& visit);

}  // namespace memreel
