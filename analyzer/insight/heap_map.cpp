#include "analyzer/insight/heap_map.h"

#include <algorithm>

#include "formats/torch/settings.h"

namespace memreel {
namespace {

/// Fills one segment with blocks and gaps.
class SegmentFiller {
 public:
  SegmentFiller(HeapMap& map, HeapSegment segment, bool by_rules, Bytes large_run)
      : map_(map), segment_(segment), by_rules_(by_rules), large_run_(large_run), at_(segment.address) {
    segment_.first_block = static_cast<std::uint32_t>(map.blocks.size());
  }

  void add(const LiveAllocation& allocation, Bytes size) {
    // Recordings with gaps can have overlapping blocks; the one at the higher address is then cut at the front.
    const Address begin = std::max(allocation.address, at_);
    const Address end = std::min(allocation.address + size, segment_.end());
    if (by_rules_ && TorchSettings::is_small(size)) has_small_ = true;
    if (by_rules_ && !TorchSettings::is_small(size)) has_large_ = true;
    if (begin >= end) return;
    gap_until(begin);
    const BlockUse use = allocation.pending ? BlockUse::pending : BlockUse::live;
    map_.blocks.push_back({.address = begin,
                           .size = end - begin,
                           .use = use,
                           .allocation = allocation.allocation,
                           .requested = allocation.size});
    (allocation.pending ? segment_.pending : segment_.live) += end - begin;
    if (!allocation.pending) map_.requested += allocation.size;
    at_ = end;
  }

  void finish() {
    gap_until(segment_.end());
    segment_.block_count = static_cast<std::uint32_t>(map_.blocks.size()) - segment_.first_block;
    segment_.pool_stream.small =
        by_rules_ && (has_small_ || (!has_large_ && segment_.size == TorchSettings::small_segment));
    segment_.unreleasable = unreleasable();
    map_.reserved += segment_.size;
    map_.live += segment_.live;
    map_.pending += segment_.pending;
    map_.unreleasable += segment_.unreleasable;
    map_.segments.push_back(segment_);
  }

 private:
  void gap_until(Address end) {
    if (end <= at_) return;
    map_.blocks.push_back({.address = at_, .size = end - at_});
    segment_.largest_free = std::max(segment_.largest_free, end - at_);
    at_ = end;
  }

  Bytes unreleasable() const {
    const Bytes free = segment_.free();
    if (segment_.used() == 0_B) return {};
    if (!segment_.mapped) return free;
    const Bytes run = segment_.pool_stream.small ? TorchSettings::small_segment : large_run_;
    Bytes releasable;
    for (std::size_t i = segment_.first_block; i < map_.blocks.size(); ++i) {
      const HeapBlock& block = map_.blocks[i];
      if (block.use != BlockUse::free) continue;
      const std::uint64_t first = ((block.address - segment_.address).count + run.count - 1) / run.count;
      const std::uint64_t last = (block.end() - segment_.address).count / run.count;
      if (first < last) releasable += run * (last - first);
    }
    return free - releasable;
  }

  HeapMap& map_;
  HeapSegment segment_;
  bool by_rules_;
  Bytes large_run_;
  bool has_small_ = false, has_large_ = false;
  Address at_;  // everything before it is filled
};

}  // namespace

std::string_view name_of(BlockUse use) {
  switch (use) {
    case BlockUse::live:
      return "live";
    case BlockUse::pending:
      return "pending";
    case BlockUse::free:
      break;
  }
  return "free";
}

Bytes HeapMap::largest_free() const {
  Bytes largest;
  for (const HeapSegment& segment : segments) largest = std::max(largest, segment.largest_free);
  return largest;
}

double HeapMap::fragmentation() const {
  if (reserved == 0_B) return 0;
  return 1 - static_cast<double>(live.count) / static_cast<double>(reserved.count);
}

HeapMap heap_map(const Tables& tables, const HeapSnapshot& snapshot, HeapId heap, const RecordedBlocks& blocks) {
  HeapMap map{.heap = heap, .events = snapshot.event};
  std::vector<const LiveAllocation*> allocations;
  for (const LiveAllocation& allocation : snapshot.allocations)
    if (tables[allocation.origin].heap == heap) allocations.push_back(&allocation);
  std::ranges::sort(allocations, {}, [](const LiveAllocation* a) { return std::tuple(a->address, a->allocation); });

  const bool by_rules = is_torch_heap(tables, heap);
  const auto size_of = [&](const LiveAllocation& a) {
    return index(a.allocation) < blocks.sizes.size() ? blocks.sizes[index(a.allocation)] : a.size;
  };
  auto next = allocations.begin();
  const auto leave_outside = [&](Address until) {
    for (; next != allocations.end() && (*next)->address < until; ++next) map.outside += size_of(**next);
  };
  for (const LiveSegment& recorded : snapshot.segments) {
    const Origin& origin = tables[recorded.origin];
    if (origin.heap != heap) continue;
    const HeapSegment segment{.address = recorded.address,
                              .size = recorded.size,
                              .pool_stream = {.pool = origin.pool, .stream = origin.stream},
                              .mapped = recorded.mapped};
    leave_outside(segment.address);
    SegmentFiller filler(map, segment, by_rules, blocks.large_runs[index(heap)]);
    for (; next != allocations.end() && (*next)->address < segment.end(); ++next) filler.add(**next, size_of(**next));
    filler.finish();
  }
  for (; next != allocations.end(); ++next) map.outside += size_of(**next);
  return map;
}

void for_each_snapshot(const Trace& trace, std::span<const std::uint64_t> instants,
                       const std::function<void(const HeapSnapshot&)>& visit) {
  LiveSet live(trace.tables);
  std::uint64_t done = 0;
  for (const std::uint64_t instant : instants) {
    for (; done < std::min<std::uint64_t>(instant, trace.events.count()); ++done) {
      Event event = trace.events[done];
      live.apply(event);
    }
    HeapSnapshot snapshot = live.snapshot();
    snapshot.event = done;
    visit(snapshot);
  }
}

}  // namespace memreel
