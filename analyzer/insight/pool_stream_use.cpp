#include "analyzer/insight/pool_stream_use.h"

#include <algorithm>
#include <map>

namespace memreel {

std::vector<PoolStreamUse> pool_streams_of(const HeapMap& map) {
  std::map<PoolStreamKey, PoolStreamUse> pool_streams;
  for (const HeapSegment& segment : map.segments) {
    PoolStreamUse& use = pool_streams[segment.pool_stream];
    use.pool_stream = segment.pool_stream;
    ++use.segments;
    use.reserved += segment.size;
    use.live += segment.live;
    use.pending += segment.pending;
    use.unreleasable += segment.unreleasable;
    use.largest_free = std::max(use.largest_free, segment.largest_free);
  }
  std::vector<PoolStreamUse> result;
  for (const auto& [key, use] : pool_streams) result.push_back(use);
  std::ranges::stable_sort(result, std::ranges::greater{}, &PoolStreamUse::free);
  return result;
}

Stranded stranded_for(const HeapMap& map, const PoolStreamKey& pool_stream, Bytes requested) {
  Stranded stranded;
  for (const HeapSegment& segment : map.segments) {
    if (segment.pool_stream == pool_stream) continue;
    const bool other_pool =
        segment.pool_stream.pool != pool_stream.pool || segment.pool_stream.small != pool_stream.small;
    for (const HeapBlock& block : map.blocks_of(segment))
      if (block.use == BlockUse::free && block.size >= requested)
        (other_pool ? stranded.other_pools : stranded.other_streams) += block.size;
  }
  return stranded;
}

}  // namespace memreel
