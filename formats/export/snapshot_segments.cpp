// SPDX-License-Identifier: Apache-2.0
#include "formats/export/snapshot_segments.h"

#include <algorithm>
#include <iterator>

#include "formats/export/stack_weights.h"
#include "formats/model/live_set.h"
#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

/// A snapshot has a list for each ordinal up to the highest.
constexpr std::int32_t most_devices = 1'000;
constexpr Address max_end{~std::uint64_t{0}};

/// Places what is live at the end into its segments.
class SegmentsAtEnd {
 public:
  SegmentsAtEnd(const Tables& tables, std::span<const TorchHeap> heaps, std::span<const Bytes> block_sizes)
      : tables_(tables), heaps_(heaps), block_sizes_(block_sizes) {}

  std::vector<TorchSegment> of(const HeapSnapshot& end) {
    for (const LiveSegment& segment : end.segments) add(segment);
    for (const LiveAllocation& allocation : end.allocations) add(allocation);
    std::vector<TorchSegment> segments;
    segments.reserve(found_.size());
    for (auto& [key, segment] : found_) segments.push_back(std::move(segment));
    for (TorchSegment& segment : segments) tile(segment);
    return segments;
  }

 private:
  void add(const LiveSegment& segment) {
    const HeapId heap = tables_[segment.origin].heap;
    if (!heaps_[index(heap)].shown || !heaps_[index(heap)].has_segments) return;
    found_[{heap, segment.address}] = {.device = tables_[heap].device,
                                       .address = segment.address,
                                       .size = segment.size,
                                       .origin = segment.origin,
                                       .expandable = segment.mapped,
                                       .blocks = {}};
  }

  /// In its segment, or as a segment of its own.
  void add(const LiveAllocation& allocation) {
    const HeapId heap = tables_[allocation.origin].heap;
    if (!heaps_[index(heap)].shown || allocation.size == 0_B) return;
    const TorchBlock block{.address = allocation.address,
                           .size = block_size(allocation.allocation, allocation.size),
                           .requested = allocation.size,
                           .pending = allocation.pending,
                           .stack = allocation.stack};
    const auto after = found_.upper_bound({heap, block.address});
    if (after != found_.begin()) {
      const auto& [key, before] = *std::prev(after);
      if (key.first == heap && block.address < before.address + before.size) {
        std::prev(after)->second.blocks.push_back(block);
        return;
      }
    }
    found_[{heap, block.address}] = {.device = tables_[heap].device,
                                     .address = block.address,
                                     .size = block.size,
                                     .origin = allocation.origin,
                                     .expandable = false,
                                     .blocks = {block}};
  }

  Bytes block_size(AllocationId id, Bytes requested) const {
    const std::size_t i = index(id);
    return i < block_sizes_.size() ? std::max(requested, block_sizes_[i]) : requested;
  }

  /// Sorts the blocks and drops overlapping ones, as in a damaged recording.
  static void tile(TorchSegment& segment) {
    std::ranges::sort(segment.blocks, {}, &TorchBlock::address);
    std::vector<TorchBlock> kept;
    Address end = segment.address;
    for (std::size_t i = 0; i < segment.blocks.size(); ++i) {
      TorchBlock block = segment.blocks[i];
      if (block.address < end) continue;
      const Address limit = std::min(segment.address + segment.size,
                                     i + 1 < segment.blocks.size() ? segment.blocks[i + 1].address : max_end);
      block.size = std::min(block.size, limit - block.address);
      block.requested = std::min(block.requested, block.size);
      if (block.size == 0_B) continue;
      end = block.address + block.size;
      kept.push_back(block);
    }
    segment.blocks = std::move(kept);
  }

  const Tables& tables_;
  std::span<const TorchHeap> heaps_;
  std::span<const Bytes> block_sizes_;
  std::map<std::pair<HeapId, Address>, TorchSegment> found_;
};

}  // namespace

std::vector<TorchHeap> torch_heaps(const Trace& trace) {
  const Tables& tables = trace.tables;
  std::vector<TorchHeap> heaps(tables.heaps.size());
  bool has_torch = false;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const HeapId heap = tables[trace.events.origin(i)].heap;
    has_torch |= is_torch_heap(tables, heap);
    if (is_segment(trace.events.kind(i)) && tables[heap].level == Level::framework)
      heaps[index(heap)].has_segments = true;
  }
  const std::vector<bool> of_devices = device_heaps(tables);
  const bool has_host = torch_host_heap(tables).has_value();
  for (std::uint32_t h = 1; h < heaps.size(); ++h) {
    const Heap& heap = tables.heaps[h];
    if (heap.device < 0)
      heaps[h].shown = has_host && tables[heap.parent].level == Level::driver;
    else
      heaps[h].shown = heap.device < most_devices && of_devices[h] && (!has_torch || is_torch_heap(tables, HeapId{h}));
  }
  return heaps;
}

std::vector<TorchSegment> torch_segments_at_end(const Trace& trace, std::span<const TorchHeap> heaps,
                                                std::span<const Bytes> block_sizes) {
  LiveSet live(trace.tables);
  TorchHostReserve reserve(trace);
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    reserve.apply(trace.events[i], [&](Event event) { live.apply(event); });
  }
  return SegmentsAtEnd(trace.tables, heaps, block_sizes).of(live.snapshot());
}

namespace {

/// The heap's initial settings.
const Settings* settings_of(const Trace& trace, HeapId heap) {
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind(i) == EventKind::settings && trace.tables[trace.events.origin(i)].heap == heap &&
        trace.events.address_or_value(i) < trace.tables.settings.size())
      return &trace.tables.settings[trace.events.address_or_value(i)];
  return nullptr;
}

TorchHostSettings settings_in_trace(const Trace& trace, HeapId heap) {
  std::map<std::string, std::string> texts;
  if (const Settings* settings = settings_of(trace, heap))
    for (const auto& [key, value] : settings->entries) texts[trace.tables[key]] = trace.tables[value];
  const auto parsed = TorchHostSettings::parse(texts);
  return parsed ? *parsed : TorchHostSettings{};
}

std::string listed(Bytes limit) { return limit == TorchHostSettings::unlimited ? "-1" : std::to_string(limit.count); }

}  // namespace

std::optional<HeapId> torch_host_heap(const Tables& tables) {
  for (std::uint32_t h = 1; h < tables.heaps.size(); ++h)
    if (tables.heaps[h].device < 0 && tables.heaps[h].level == Level::framework &&
        tables[tables.heaps[h].name] == TorchHostSettings::policy)
      return HeapId{h};
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> torch_host_settings(const Trace& trace) {
  const std::optional<HeapId> host = torch_host_heap(trace.tables);
  if (!host) return {};
  const TorchHostSettings settings = settings_in_trace(trace, *host);
  return {{conf_variables.front(), alloc_conf(TorchHostSettings{.reserve = settings.reserve})},
          {"max_round_threshold", listed(settings.round_threshold)},
          {"max_cached_size", listed(settings.cached)}};
}

TorchHostReserve::TorchHostReserve(const Trace& trace) : tables_(trace.tables), host_(torch_host_heap(trace.tables)) {
  if (host_) size_ = settings_in_trace(trace, *host_).reserve;
}

bool TorchHostReserve::is_reserve(const Event& segment) {
  const Bytes size = std::exchange(size_, 0_B);
  if (size == 0_B || segment.size != size) return false;
  begin_ = segment.address;
  end_ = begin_ + size;
  return true;
}

bool TorchHostReserve::is_dropped(const Block& block) const {
  const PoolId pool = tables_[block.segment.origin].pool;
  return block.free && (pool == PoolId::default_pool || ended_.contains(pool));
}

Event TorchHostReserve::of_segment(Event alloc) {
  alloc.kind = EventKind::segment_alloc;
  alloc.allocation = AllocationId::none;
  return alloc;
}

void TorchHostReserve::note(const Event& event) {
  if (event.kind == EventKind::segment_free) {
    blocks_.erase(event.address);
  } else if (event.kind == EventKind::alloc) {
    blocks_[event.address] = {.segment = of_segment(event), .free = false};
  } else if (const auto block = blocks_.find(event.address); block != blocks_.end()) {
    block->second.free = event.kind == EventKind::free_completed;
  }
}

}  // namespace memreel
