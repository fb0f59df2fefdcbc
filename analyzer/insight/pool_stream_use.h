// Free memory by the pool, stream and size class that may use it.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/insight/heap_map.h"

namespace memreel {

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
