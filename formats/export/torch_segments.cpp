#include "formats/export/torch_segments.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "formats/export/device_heaps.h"
#include "formats/export/torch_host.h"
#include "formats/model/live_set.h"

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
  const std::vector<bool> shown = device_heaps(tables);
  const bool has_host = torch_host_heap(tables).has_value();
  for (std::uint32_t h = 1; h < heaps.size(); ++h) {
    const Heap& heap = tables.heaps[h];
    heaps[h].shown = heap.device < 0 ? has_host && tables[heap.parent].level == Level::driver
                                     : shown[h] && heap.device < most_devices;
  }
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const HeapId heap = tables[trace.events.origin[i]].heap;
    if (is_segment(trace.events.kind[i]) && tables[heap].level == Level::framework)
      heaps[index(heap)].has_segments = true;
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

}  // namespace memreel
