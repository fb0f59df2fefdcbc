#include "analyzer/insight/out_of_memory.h"

#include <algorithm>
#include <map>

#include "analyzer/policies/torch_settings.h"

namespace memreel {
namespace {

/// The largest hole of `map` for which `wanted(segment)`.
std::optional<HoleMap> largest_hole(const HeapMap& map, auto wanted) {
  const HeapSegment* best = nullptr;
  for (const HeapSegment& segment : map.segments)
    if (segment.largest_free > 0_B && wanted(segment) && (best == nullptr || segment.largest_free > best->largest_free))
      best = &segment;
  if (best == nullptr) return std::nullopt;
  const std::span<const HeapBlock> blocks = map.blocks_of(*best);
  HoleMap hole{.segment = *best, .blocks = {blocks.begin(), blocks.end()}};
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].use == BlockUse::free && blocks[i].size == best->largest_free) {
      hole.hole = i;
      break;
    }
  return hole;
}

OomVerdict verdict_of(const OutOfMemory& oom) {
  if (oom.capacity) {
    const bool fits = oom.live <= *oom.capacity && oom.requested <= *oom.capacity - oom.live;
    return fits ? OomVerdict::fragmentation : OomVerdict::lack_of_memory;
  }
  if (oom.reserved == 0_B) return OomVerdict::unknown;
  return oom.free >= oom.requested ? OomVerdict::fragmentation : OomVerdict::lack_of_memory;
}

double fragmentation_index(const OutOfMemory& oom) {
  if (oom.holes == 0 || oom.requested == 0_B) return 0;
  const double in_requests = static_cast<double>(oom.free.count) / static_cast<double>(oom.requested.count);
  return std::max(0.0, 1 - (1 + in_requests) / static_cast<double>(oom.holes));
}

/// What follows from the state at the moment of the failure.
void look_at(const HeapMap& map, OutOfMemory& oom) {
  oom.live = map.requested + map.outside;
  oom.allocated = map.live + map.outside;
  oom.pending = map.pending;
  oom.reserved = map.reserved;
  oom.free = map.free();
  oom.hostage = map.hostage;
  oom.largest_free = map.largest_free();
  oom.holes = static_cast<std::uint64_t>(
      std::ranges::count_if(map.blocks, [](const HeapBlock& block) { return block.use == BlockUse::free; }));
  for (const LaneUse& use : lanes_of(map)) {
    if (use.lane != oom.lane) continue;
    oom.free_in_lane = use.free();
    oom.largest_in_lane = use.largest_free;
  }
  oom.stranded = stranded_for(map, oom.lane, oom.requested);
  oom.hole_in_lane = largest_hole(map, [&](const HeapSegment& segment) { return segment.lane == oom.lane; });
  oom.largest_hole = largest_hole(map, [](const HeapSegment&) { return true; });
  if (oom.hole_in_lane && oom.largest_hole && oom.hole_in_lane->size() == oom.largest_hole->size())
    oom.largest_hole.reset();
}

const Prepared* find_heap(const Remedies& remedies, HeapId heap) {
  const auto found = std::ranges::find(remedies.heaps, heap, &Prepared::heap);
  return found == remedies.heaps.end() ? nullptr : &*found;
}

OutOfMemory request_of(const Trace& trace, std::uint32_t i, const Remedies& remedies) {
  const Event event = trace.events[i];
  const Origin& origin = trace.tables[event.origin];
  OutOfMemory oom{.event = i,
                  .heap = origin.heap,
                  .lane = {.pool = origin.pool, .stream = origin.stream},
                  .requested = event.size,
                  .needed = event.size};
  if (event.value != 0) oom.device_free = Bytes{event.value};
  const Prepared* const heap = find_heap(remedies, origin.heap);
  if (heap == nullptr) return oom;
  oom.capacity = heap->implied_capacity;
  if (!is_torch_heap(trace.tables, origin.heap)) return oom;
  const TorchSettings settings = TorchSettings::recorded(heap->settings);
  const Bytes rounded = settings.round(event.size);
  oom.lane.small = TorchSettings::is_small(rounded);
  oom.needed = settings.segment_size(rounded);
  return oom;
}

}  // namespace

std::string_view name_of(OomVerdict verdict) {
  switch (verdict) {
    case OomVerdict::lack_of_memory:
      return "lack of memory";
    case OomVerdict::fragmentation:
      return "fragmentation";
    case OomVerdict::unknown:
      break;
  }
  return "unknown";
}

OutOfMemories judge_failures(const Trace& trace, const RecordedBlocks& blocks, const Remedies& remedies) {
  OutOfMemories result;
  std::map<HeapId, std::vector<std::uint32_t>> failures;
  for (std::uint32_t i = 0; i < trace.events.count(); ++i) {
    if (trace.events.kind[i] != EventKind::alloc_failed) continue;
    ++result.count;
    failures[trace.tables[trace.events.origin[i]].heap].push_back(i);
    if (result.examined.size() < OutOfMemories::most_examined)
      result.examined.push_back(request_of(trace, i, remedies));
  }
  std::vector<std::uint64_t> instants;
  for (const OutOfMemory& oom : result.examined) instants.push_back(oom.event);
  auto next = result.examined.begin();
  for_each_snapshot(trace, instants, [&](const HeapSnapshot& snapshot) {
    OutOfMemory& oom = *next++;
    look_at(heap_map(trace.tables, snapshot, oom.heap, blocks), oom);
    oom.verdict = verdict_of(oom);
    oom.fragmentation_index = fragmentation_index(oom);
    if (!oom.capacity) return;  // there is nothing to replay it at
    for (std::size_t i = 0; i < remedies.tried.size(); ++i)
      if (survives(remedies.tried[i].outcome, oom.heap, static_cast<std::uint32_t>(oom.event), failures[oom.heap]))
        oom.survivors.push_back(i);
  });
  return result;
}

}  // namespace memreel
