#include "analyzer/insight/lane_use.h"

#include <algorithm>
#include <map>

namespace memreel {

std::vector<LaneUse> lanes_of(const HeapMap& map) {
  std::map<LaneKey, LaneUse> lanes;
  for (const HeapSegment& segment : map.segments) {
    LaneUse& use = lanes[segment.lane];
    use.lane = segment.lane;
    ++use.segments;
    use.reserved += segment.size;
    use.live += segment.live;
    use.pending += segment.pending;
    use.hostage += segment.hostage;
    use.largest_free = std::max(use.largest_free, segment.largest_free);
  }
  std::vector<LaneUse> result;
  for (const auto& [key, use] : lanes) result.push_back(use);
  std::ranges::stable_sort(result, std::ranges::greater{}, &LaneUse::free);
  return result;
}

Stranded stranded_for(const HeapMap& map, const LaneKey& lane, Bytes requested) {
  Stranded stranded;
  for (const HeapSegment& segment : map.segments) {
    if (segment.lane == lane) continue;
    const bool other_pool = segment.lane.pool != lane.pool || segment.lane.small != lane.small;
    for (const HeapBlock& block : map.blocks_of(segment))
      if (block.use == BlockUse::free && block.size >= requested)
        (other_pool ? stranded.other_pools : stranded.other_streams) += block.size;
  }
  return stranded;
}

}  // namespace memreel
