// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/preexisting.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "formats/import/torch/recorded_heap.h"
#include "formats/model/flat_map.h"
#include "formats/model/units.h"

namespace memreel::torch {
namespace {

struct AddressHash {
  std::uint64_t operator()(std::uint64_t address) const { return mix_bits(address); }
};

/// A free of memory that the history did not allocate.
struct UnknownFree {
  std::size_t entry = 0;
  bool pending = false;  // a completion whose free request is also unknown
};

class Allocations {
 public:
  void apply(const Entry& entry, std::size_t i) {
    const std::uint64_t address = entry.address;
    switch (entry.action()) {
      case Action::alloc:
        states_.put(address, live);
        break;
      case Action::free_requested:
        if (states_.put(address, pending) == absent) unknown_frees_.push_back({i, false});
        break;
      case Action::free_completed:
        if (states_.erase(address) == absent) unknown_frees_.push_back({i, true});
        break;
      default:
        break;
    }
  }
  bool alive(Address address) const { return states_.find(address.value) != absent; }
  const std::vector<UnknownFree>& unknown_frees() const { return unknown_frees_; }

 private:
  using States = FlatMap<std::uint64_t, AddressHash>;
  static constexpr std::uint32_t live = 0;
  static constexpr std::uint32_t pending = 1;

  States states_;
  std::vector<UnknownFree> unknown_frees_;
};

/// The first entry that allocates or frees each address of `frees`.
std::unordered_map<std::uint64_t, std::size_t> first_uses(const Entries& entries,
                                                          const std::vector<UnknownFree>& frees) {
  std::unordered_map<std::uint64_t, std::size_t> first;
  for (const UnknownFree& free : frees) first.try_emplace(entries[free.entry].address, free.entry);
  for (std::size_t i = 0; i < entries.count(); ++i) {
    if (entries[i].action() != Action::alloc) continue;
    const auto found = first.find(entries[i].address);
    if (found != first.end()) found->second = std::min(found->second, i);
  }
  return first;
}

/// Entries may state no pool where all are the default one.
bool are_same(const PoolStreams& pool_streams, PoolStreamId a, PoolStreamId b) {
  const PoolStream &first = pool_streams[a], &second = pool_streams[b];
  return first.stream == second.stream && first.pool.value_or(PoolKey{}) == second.pool.value_or(PoolKey{});
}

/// Where an expandable segment follows another without a gap: a snapshot lists the memory of one as one piece.
std::set<Address> adjacent_ranges(const DeviceHistory& history) {
  std::set<Address> ends, begins;
  for (const Segment& segment : history.segments)
    if (segment.expandable) ends.insert(segment.address + segment.size);
  for (const Segment& segment : history.segments)
    if (segment.expandable && ends.contains(segment.address)) begins.insert(segment.address);
  return begins;
}

/// Adjacent memory of one expandable segment becomes one.
std::vector<PreexistingSegment> merged(const std::vector<PreexistingSegment>& segments, const DeviceHistory& history,
                                       const PoolStreams& pool_streams) {
  const std::set<Address> begins = adjacent_ranges(history);
  std::vector<PreexistingSegment> result;
  for (const PreexistingSegment& segment : segments) {
    const bool continues = !result.empty() && segment.mapped && result.back().mapped &&
                           are_same(pool_streams, result.back().pool_stream, segment.pool_stream) &&
                           result.back().address + result.back().size == segment.address &&
                           !begins.contains(segment.address);
    if (continues)
      result.back().size += segment.size;
    else
      result.push_back(segment);
  }
  return result;
}

/// The segment that contains an address, of those sorted by it.
PreexistingSegment* segment_at(std::span<PreexistingSegment> segments, Address address) {
  const auto after = std::ranges::upper_bound(segments, address, {}, &PreexistingSegment::address);
  if (after == segments.begin()) return nullptr;
  PreexistingSegment& segment = *(after - 1);
  return address < segment.address + segment.size ? &segment : nullptr;
}

/// All segments of the small pools have one size. Mapped memory has the class of what was ever placed in it before it
/// was unmapped, or of the unit in which it was released: later, its addresses may be used for anything.
void find_classes(std::span<PreexistingSegment> segments, std::span<const PreexistingAllocation> allocations,
                  const DeviceHistory& history, const TorchSettings& rules) {
  std::map<Address, bool> small;  // of mapped segments
  std::set<Address> gone;
  const auto see = [&](Address address, bool is_small) {
    const PreexistingSegment* segment = segment_at(segments, address);
    if (segment != nullptr && segment->mapped && !gone.contains(segment->address))
      small.try_emplace(segment->address, is_small);
  };
  if (std::ranges::any_of(segments, &PreexistingSegment::mapped)) {
    for (const auto& [block, pool_stream] : allocations)
      see(block.address, TorchSettings::is_small(rules.round(block.requested)));
    for (std::size_t i = 0; i < history.entries.count(); ++i) {
      const Entry& entry = history.entries[i];
      if (entry.action() == Action::alloc) see({entry.address}, TorchSettings::is_small(rules.round({entry.size})));
      if (entry.action() != Action::segment_unmap) continue;
      if (const PreexistingSegment* segment = segment_at(segments, {entry.address})) gone.insert(segment->address);
    }
    for (const Segment& segment : history.segments) see(segment.address, segment.small);
  }
  for (PreexistingSegment& segment : segments) {
    const auto known = small.find(segment.address);
    if (!segment.mapped)
      segment.small = segment.size == TorchSettings::small_segment;
    else
      segment.small = known != small.end() ? known->second : segment.size.count % rules.large_segment.count != 0;
  }
}

/// An expandable segment, as far as it was ever mapped.
struct MappedRange {
  Address begin;
  PoolStreamId pool_stream{};
  bool small = false;
  std::uint64_t held = 0;  // bytes; 0: it is gone, and another may be made in its place
};

void find_ranges(std::span<PreexistingSegment> segments, const DeviceHistory& history,
                 const PoolStreams& pool_streams) {
  // A range has addresses for more than the device's memory, so those of two ranges are farther apart than what was
  // unmapped between memory of one.
  TotalBytes total(4_GiB);
  for (const PreexistingSegment& segment : segments) total += segment.size;
  const Bytes most_apart = total.bytes();
  const std::set<Address> begins = adjacent_ranges(history);
  std::vector<MappedRange> ranges;
  std::vector<std::size_t> range_of(segments.size());
  Address end;  // of the latest mapped segment
  for (std::size_t i = 0; i < segments.size(); ++i) {
    PreexistingSegment& segment = segments[i];
    if (!segment.mapped) {
      segment.range = segment.address;
      continue;
    }
    if (ranges.empty() || !are_same(pool_streams, ranges.back().pool_stream, segment.pool_stream) ||
        ranges.back().small != segment.small || segment.address - end > most_apart || begins.contains(segment.address))
      ranges.push_back({.begin = segment.address, .pool_stream = segment.pool_stream, .small = segment.small});
    ranges.back().held += segment.size.count;
    end = segment.address + segment.size;
    range_of[i] = ranges.size() - 1;
  }
  if (ranges.empty()) return;
  for (std::size_t i = 0; i < history.entries.count(); ++i) {
    const Entry& entry = history.entries[i];
    if (entry.action() != Action::segment_map && entry.action() != Action::segment_unmap) continue;
    const bool maps = entry.action() == Action::segment_map;
    const auto after = std::ranges::upper_bound(ranges, Address{entry.address}, {}, &MappedRange::begin);
    const bool precedes = maps && after != ranges.end() && after->held > 0 &&
                          after->begin - Address{entry.address} <= most_apart &&
                          are_same(pool_streams, after->pool_stream, entry.pool_stream()) &&
                          after->small == (Bytes{entry.size} == TorchSettings::small_segment);
    if (!precedes && after == ranges.begin()) continue;
    MappedRange& range = precedes ? *after : *(after - 1);
    if (precedes) range.begin = {entry.address};
    if (range.held == 0) continue;
    range.held = maps ? range.held + entry.size : range.held - std::min(range.held, entry.size);
  }
  for (std::size_t i = 0; i < segments.size(); ++i)
    if (segments[i].mapped) segments[i].range = ranges[range_of[i]].begin;
}

/// The starts of what was first allocated behind older blocks while they existed, by the address of the block: free
/// memory is handed out from its front, so the block ends there. It may be larger than the request it serves, because
/// the rest was too small to be split off.
std::unordered_map<std::uint64_t, std::uint64_t> first_behind(std::span<const PreexistingSegment> segments,
                                                              std::span<const PreexistingAllocation> allocations,
                                                              const DeviceHistory& history) {
  std::unordered_map<std::uint64_t, std::uint64_t> found;
  std::map<std::uint64_t, std::uint64_t> open;  // older blocks not yet freed: address, and where the next one begins
  for (std::size_t i = 0, s = 0; i < allocations.size(); ++i) {
    const Address address = allocations[i].block.address;
    while (s < segments.size() && segments[s].address + segments[s].size <= address) ++s;
    if (s == segments.size()) break;
    Address end = segments[s].address + segments[s].size;
    if (i + 1 < allocations.size()) end = std::min(end, allocations[i + 1].block.address);
    open.emplace(address.value, end.value);
  }
  for (std::size_t i = 0; i < history.entries.count() && !open.empty(); ++i) {
    const Entry& entry = history.entries[i];
    if (entry.action() == Action::free_completed) open.erase(entry.address);
    if (entry.action() != Action::alloc) continue;
    const auto after = open.upper_bound(entry.address);
    if (after == open.begin()) continue;
    const auto block = std::prev(after);
    if (entry.address >= block->second) continue;
    found.emplace(block->first, entry.address);
    open.erase(block);
  }
  return found;
}

/// How the allocations of a segment, which are `inside` it, divide it.
std::optional<std::vector<InitialBlock>> blocks_of(const PreexistingSegment& segment,
                                                   std::span<const PreexistingAllocation> inside,
                                                   const std::unordered_map<std::uint64_t, std::uint64_t>& behind,
                                                   const TorchSettings& rules) {
  std::vector<InitialBlock> blocks;
  const Address end = segment.address + segment.size;
  Address at = segment.address;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const Block& block = inside[i].block;
    if (block.address < at) return std::nullopt;
    if (block.address > at) blocks.push_back({.size = block.address - at, .use = InitialUse::free});
    const Bytes room = (i + 1 < inside.size() ? inside[i + 1].block.address : end) - block.address;
    Bytes size = block.size;
    if (size == 0_B) {
      const Bytes rounded = rules.round(block.requested);
      const auto next = behind.find(block.address.value);
      const Bytes most = next == behind.end() ? room : Address{next->second} - block.address;
      if (next != behind.end() && rounded < most && !rules.splits(most - rounded, rounded))
        size = most;
      else
        size = rounded < room && rules.splits(room - rounded, rounded) ? rounded : room;
    }
    if (size > room || block.requested > size) return std::nullopt;
    blocks.push_back({.size = size, .use = block.pending ? InitialUse::pending : InitialUse::allocated});
    at = block.address + size;
  }
  if (at < end) blocks.push_back({.size = end - at, .use = InitialUse::free});
  return blocks;
}

}  // namespace

void find_preexisting_segments(const DeviceHistory& history, const PoolStreams& pool_streams,
                               PreexistingMemory& memory) {
  std::vector<PreexistingSegment> result;
  RangeMap<bool> held;
  const auto add_gaps = [&](Range range, PoolStreamId pool_stream, bool mapped) {
    held.for_each_gap(range, [&](Range gap) {
      result.push_back(
          {.address = {gap.begin}, .size = {gap.end - gap.begin}, .pool_stream = pool_stream, .mapped = mapped});
    });
  };
  for (const std::size_t i : history.entries.of_segments()) {
    const Entry& entry = history.entries[i];
    const Action action = entry.action();
    if (acquires_segment(action)) {
      held.set(Range::of(entry.address, entry.size), true);
    } else {
      const Range range = Range::of(entry.address, entry.size);
      add_gaps(range, entry.pool_stream(), action == Action::segment_unmap);
      held.remove(range);
    }
  }
  for (const Segment& segment : history.segments)
    add_gaps(Range::of(segment.address.value, segment.size.count), segment.pool_stream, segment.expandable);
  std::ranges::sort(result, {}, &PreexistingSegment::address);
  memory.segments = merged(result, history, pool_streams);
}

void find_preexisting_allocations(const DeviceHistory& history, PreexistingMemory& memory) {
  Allocations at_end;
  for (std::size_t i = 0; i < history.entries.count(); ++i) at_end.apply(history.entries[i], i);
  const std::vector<UnknownFree>& frees = at_end.unknown_frees();
  if (!frees.empty()) {
    const auto first = first_uses(history.entries, frees);
    for (const UnknownFree& free : frees) {
      const Entry& entry = history.entries[free.entry];
      if (first.at(entry.address) != free.entry) continue;
      memory.allocations.push_back(
          {.block = {.address = {entry.address}, .requested = {entry.size}, .pending = free.pending},
           .pool_stream = entry.pool_stream()});
    }
  }
  for (const Segment& segment : history.segments) {
    for (const Block& block : segment.blocks) {
      if (at_end.alive(block.address)) continue;
      memory.allocations.push_back({.block = block, .pool_stream = segment.pool_stream});
      memory.was_recorded = memory.was_recorded || block.stack != StackId::none;
    }
  }
  std::ranges::sort(memory.allocations, {}, [](const PreexistingAllocation& a) { return a.block.address; });
}

void divide(const DeviceHistory& history, const PoolStreams& pool_streams, const TorchSettings& rules,
            PreexistingMemory& memory) {
  const std::span<PreexistingSegment> segments = memory.segments;
  const std::span<const PreexistingAllocation> all = memory.allocations;
  std::size_t done = 0;
  std::vector<std::vector<InitialBlock>> blocks;
  const auto behind = first_behind(segments, all, history);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const PreexistingSegment& segment = segments[i];
    if (i > 0 && segment.address < segments[i - 1].address + segments[i - 1].size) return;
    std::size_t end = done;
    while (end < all.size() && all[end].block.address < segment.address + segment.size) ++end;
    const auto inside = all.subspan(done, end - done);
    if (!inside.empty() && inside.front().block.address < segment.address) return;
    auto divided = blocks_of(segment, inside, behind, rules);
    if (!divided) return;
    blocks.push_back(*std::move(divided));
    done = end;
  }
  if (done < all.size()) return;
  find_classes(segments, all, history, rules);
  find_ranges(segments, history, pool_streams);
  for (std::size_t i = 0; i < segments.size(); ++i) segments[i].blocks = std::move(blocks[i]);
  memory.divided = true;
}

}  // namespace memreel::torch
