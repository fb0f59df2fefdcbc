// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/heap_map.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "formats/torch/settings.h"

namespace memreel {
namespace {

/// How many of `sorted` are not above `address`. Without branches: which half it is in can't be predicted.
std::size_t count_until(const std::vector<Address>& sorted, Address address) {
  const Address* first = sorted.data();
  std::size_t count = sorted.size();
  if (count == 0) return 0;
  while (count > 1) {
    const std::size_t half = count / 2;
    first += half & (0 - static_cast<std::size_t>(first[half - 1].value <= address.value));
    count -= half;
  }
  return static_cast<std::size_t>(first - sorted.data()) + (first->value <= address.value ? 1 : 0);
}

/// Live blocks of the large pools in segments that are not expandable: only their unsplit remainders depend on
/// neighbours.
class LargeSegments {
 public:
  void add(Address address, Bytes size) { segments_[address] = {.end = address + size, .blocks = {}}; }

  void remove(Address address, Bytes size) {
    const auto first = segments_.lower_bound(address);
    segments_.erase(first, segments_.lower_bound(address + size));
  }

  /// The bytes from `address` to the next block or the end of the segment; 0 if no segment is known there. Marks
  /// `address` as a block.
  Bytes take(Address address) {
    Segment* const segment = segment_of(address);
    if (segment == nullptr) return {};
    std::vector<Address>& blocks = segment->blocks;
    const std::size_t next = count_until(blocks, address);
    const Address end = next == blocks.size() ? segment->end : blocks[next];
    blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(next), address);
    return end - address;
  }

  void give_back(Address address) {
    Segment* const segment = segment_of(address);
    if (segment == nullptr) return;
    std::vector<Address>& blocks = segment->blocks;
    const std::size_t behind = count_until(blocks, address);
    if (behind > 0 && blocks[behind - 1] == address)
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(behind) - 1);
  }

 private:
  struct Segment {
    Address end;
    std::vector<Address> blocks;  // ascending
  };

  Segment* segment_of(Address address) {
    const auto after = segments_.upper_bound(address);
    if (after == segments_.begin()) return nullptr;
    Segment& segment = std::prev(after)->second;
    return address < segment.end ? &segment : nullptr;
  }

  std::map<Address, Segment> segments_;
};

std::map<std::string, std::string> text_of_settings(const Tables& tables, const Settings& settings) {
  std::map<std::string, std::string> text;
  for (const auto& [key, value] : settings.entries) text[tables[key]] = tables[value];
  return text;
}

}  // namespace

bool is_pageable_heap(const Tables& tables, HeapId heap) {
  return tables[tables[heap].name] == TorchHostSettings::pageable_heap;
}

/// One heap; for PyTorch's, derives its blocks event by event.
class BlockSizes::TorchBlocks {
 public:
  explicit TorchBlocks(bool is_torch) : is_torch_(is_torch) {}

  bool is_torch() const { return is_torch_; }
  void set(const TorchSettings& settings) { settings_ = settings; }
  const TorchSettings& settings() const { return settings_; }
  LargeSegments& segments() { return segments_; }
  void set(const InitialHeap& initial) {
    for (const InitialSegment& segment : initial.segments) {
      Address at = segment.address;
      for (const InitialBlock& block : segment.blocks) {
        if (block.use != InitialUse::free) initial_.try_emplace(at, block.size);
        at = at + block.size;
      }
    }
  }

  Bytes block_size(Address address, Bytes requested) {
    if (const auto known = initial_.find(address); known != initial_.end()) {
      segments_.take(address);
      return std::max(requested, initial_.extract(known).mapped());
    }
    const Bytes rounded = settings_.round(requested);
    if (TorchSettings::is_small(rounded) || settings_.expandable) return rounded;
    const Bytes room = segments_.take(address);
    if (room <= rounded) return rounded;
    return settings_.splits(room - rounded, rounded) ? rounded : room;
  }

 private:
  bool is_torch_;
  TorchSettings settings_;
  LargeSegments segments_;
  std::map<Address, Bytes> initial_;  // blocks that no event has stood for yet
};

BlockSizes::BlockSizes(const Tables& tables, std::span<const InitialHeap> initial_heaps) : tables_(tables) {
  for (std::uint32_t h = 0; h < tables.heaps.size(); ++h) heaps_.emplace_back(is_torch_heap(tables, HeapId{h}));
  for (const InitialHeap& initial : initial_heaps)
    if (index(initial.heap) < heaps_.size()) heaps_[index(initial.heap)].set(initial);
}

BlockSizes::~BlockSizes() = default;

std::optional<Bytes> BlockSizes::see(EventKind kind, OriginId origin, std::uint64_t address_or_value, Bytes size) {
  const HeapId heap = tables_[origin].heap;
  TorchBlocks& blocks = heaps_[index(heap)];
  const Address address{address_or_value};
  switch (kind) {
    case EventKind::alloc:
      return blocks.is_torch() ? blocks.block_size(address, size) : size;
    case EventKind::free_requested:
    case EventKind::free_completed:
      if (!blocks.is_torch() || size <= TorchSettings::max_small) break;
      if (kind == EventKind::free_completed || !tables_[heap].observes_completion) blocks.segments().give_back(address);
      break;
    case EventKind::segment_alloc:
      if (blocks.is_torch() && size != TorchSettings::small_segment) blocks.segments().add(address, size);
      break;
    case EventKind::segment_free:
      if (blocks.is_torch()) blocks.segments().remove(address, size);
      break;
    case EventKind::settings:
      set(heap, SettingsId{static_cast<std::uint32_t>(address_or_value)});
      break;
    default:
      break;
  }
  return std::nullopt;
}

[[gnu::noinline]] void BlockSizes::set(HeapId heap, SettingsId settings) {
  heaps_[index(heap)].set(TorchSettings::recorded(text_of_settings(tables_, tables_[settings])));
}

Bytes BlockSizes::large_run(HeapId heap) const { return heaps_[index(heap)].settings().run_size(false); }

RecordedBlocks recorded_blocks(const Trace& trace) {
  RecordedBlocks result;
  result.sizes.resize(trace.events.allocation_count());
  BlockSizes blocks(trace.tables, trace.initial_heaps);
  constexpr std::uint8_t fields = event_field::all & ~(event_field::stack | event_field::time);
  trace.events.for_each<fields>([&](std::uint32_t, const Event& event) {
    if (is_free(event.kind) && event.size <= TorchSettings::max_small) return;  // most events; they change nothing
    if (const auto size = blocks.see(event)) result.sizes[index(event.allocation)] = *size;
  });
  for (std::uint32_t h = 0; h < trace.tables.heaps.size(); ++h)
    result.large_runs.push_back(blocks.large_run(HeapId{h}));
  return result;
}

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
