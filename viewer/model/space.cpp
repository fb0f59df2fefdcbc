// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/space.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace memreel::viewer {
namespace {

/// The settings of PyTorch's allocator in force at an instant.
TorchSettings settings_at(const Document& document, HeapId heap, std::uint32_t event) {
  const ColumnView<std::uint32_t>& rows = document.columns.setting;
  const Tables& tables = *document.tables;
  for (std::uint32_t i = document.rows_before(rows, event); i-- > 0;) {
    const Event seen = document.other(rows[i]).event;
    if (document.heap_of(seen.origin) != heap) continue;
    std::map<std::string, std::string> texts;
    for (const auto& [key, value] : tables[SettingsId{static_cast<std::uint32_t>(seen.value)}].entries)
      texts[tables[key]] = tables[value];
    return TorchSettings::recorded(texts);
  }
  return {};
}

/// The map of one segment; its blocks have numbers of their own, from 0 on.
HeapMap map_of(const Document& document, const HeapAt& heap, const HeldSegment& segment,
               const TorchSettings& settings) {
  HeapSnapshot snapshot{.event = heap.event};
  RecordedBlocks blocks;
  for (std::uint32_t b = 0; b < segment.blocks; ++b) {
    const HeldBlock& block = heap.blocks[segment.first_block + b];
    snapshot.allocations.push_back({.allocation = AllocationId{b},
                                    .origin = document.origin_of(block.allocation),
                                    .stack = document.stack_of(block.allocation),
                                    .address = block.address,
                                    .size = block.size,
                                    .pending = block.pending});
    blocks.sizes.push_back(block.taken);
  }
  snapshot.segments.push_back(
      {.address = segment.address, .size = segment.size, .origin = segment.origin, .mapped = segment.mapped});
  blocks.large_runs.resize(document.tables->heaps.size(), settings.run_size(false));
  return heap_map(*document.tables, snapshot, heap.heap, blocks);
}

}  // namespace

std::optional<Space> space_at(const Document& document, const HeapAt& heap, Address address) {
  const HeldSegment* const segment = heap.segment_at(address);
  if (segment == nullptr) return std::nullopt;
  const Tables& tables = *document.tables;
  const bool by_rules = is_torch_heap(tables, heap.heap);
  const TorchSettings settings = by_rules ? settings_at(document, heap.heap, heap.event) : TorchSettings();
  const HeapMap map = map_of(document, heap, *segment, settings);
  if (map.segments.empty()) return std::nullopt;
  const HeapSegment& mapped = map.segments.front();
  Space space{.segment = *segment, .pool_stream = mapped.pool_stream, .unreleasable = mapped.unreleasable};

  for (const HeapBlock& block : map.blocks_of(mapped)) {
    if (block.use != BlockUse::free) continue;
    Hole hole{.address = block.address, .size = block.size};
    if (by_rules) hole.largest_request = largest_request(settings, mapped.pool_stream.small, block.size);
    if (address >= block.address && address < block.end()) space.hole = hole;
    if (hole.size > space.largest_hole.size) space.largest_hole = hole;
  }

  PinningSites sites(tables, [&](AllocationId id) {
    return document.stack_of(heap.blocks[segment->first_block + index(id)].allocation);
  });
  sites.add(map, mapped);
  for (const PinningSite& site : sites.sites()) space.places.push_back({.site = site});
  std::vector<Bytes> largest(space.places.size());
  for (std::uint32_t b = 0; b < segment->blocks; ++b) {
    const HeldBlock& block = heap.blocks[segment->first_block + b];
    const std::uint32_t until = document.completed(block.allocation);
    space.blocks.push_back({.block = block, .until = until});
    space.empty_from = std::max(space.empty_from, until);
    const std::size_t number = sites.number_of(AllocationId{b});
    if (number >= space.places.size()) continue;  // covered by another: the recording has gaps
    SpacePlace& place = space.places[number];
    place.until = std::max(place.until, until);
    if (block.size < largest[number]) continue;
    largest[number] = block.size;
    place.largest = block.allocation;
  }
  std::ranges::stable_sort(space.places, std::ranges::greater{},
                           [](const SpacePlace& place) { return std::pair(place.until, place.site.bytes); });
  return space;
}

std::vector<std::uint32_t> ordered_segments(const HeapAt& heap, HeapOrder order) {
  std::vector<std::uint32_t> rows(heap.segments.size());
  std::iota(rows.begin(), rows.end(), 0U);
  const auto segment = [&](std::uint32_t row) -> const HeldSegment& { return heap.segments[row]; };
  if (order == HeapOrder::size)
    std::ranges::stable_sort(rows, std::ranges::greater{}, [&](std::uint32_t row) { return segment(row).size; });
  if (order == HeapOrder::age)
    std::ranges::stable_sort(rows, {}, [&](std::uint32_t row) { return segment(row).begin; });
  return rows;
}

Address address_to_select(const HeapAt& heap, const HeldSegment& segment) {
  return segment.blocks == 0 ? segment.address : heap.blocks[segment.first_block].address;
}

void select_hole(const HeapAt& heap, Selection& selection) {
  if (!heap.largest_gap) return;
  selection.select(heap.segments[*heap.largest_gap].largest_gap);
  selection.remember();
}

void select_segment(const Document& document, const HeapAt& heap, HeapOrder order, Selection& selection) {
  if (heap.segments.empty()) return;
  const HeldSegment* chosen = nullptr;
  if (selection.allocation && *selection.allocation < document.allocation_count())
    chosen = heap.segment_at(document.address_of(*selection.allocation));
  if (chosen == nullptr) {
    const std::vector<std::uint32_t> rows = ordered_segments(heap, order);
    const HeldSegment* const last = selection.space ? heap.segment_at(*selection.space) : nullptr;
    std::size_t next = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (&heap.segments[rows[i]] == last) next = (i + 1) % rows.size();
    chosen = &heap.segments[rows[next]];
  }
  selection.select(address_to_select(heap, *chosen));
  selection.remember();
}

}  // namespace memreel::viewer
