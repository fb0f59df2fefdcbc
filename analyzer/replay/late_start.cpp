// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/late_start.h"

#include <algorithm>
#include <set>
#include <span>

namespace memreel {
namespace {

std::optional<std::size_t> segment_at(std::span<const InitialSegment> segments, Address address) {
  const auto found = std::ranges::find_if(segments, [&](const InitialSegment& segment) {
    return address >= segment.address && address < segment.address + segment.size;
  });
  if (found == segments.end()) return std::nullopt;
  return static_cast<std::size_t>(found - segments.begin());
}

/// Moves `first`, and what is known to be older than it, before `second`. False if that contradicts what is known.
bool put_before(std::vector<std::size_t>& order, std::span<const std::pair<std::size_t, std::size_t>> older,
                std::size_t first, std::size_t second) {
  const auto begin = std::ranges::find(order, second);
  const auto end = std::ranges::find(order, first);
  if (begin == order.end() || end == order.end() || end <= begin) return false;
  std::set<std::size_t> moved{first};
  for (bool grows = true; grows;) {
    grows = false;
    for (const auto& [old, young] : older)
      if (moved.contains(young)) grows = moved.insert(old).second || grows;
  }
  if (moved.contains(second)) return false;
  std::stable_partition(begin, end + 1, [&](std::size_t each) { return moved.contains(each); });
  return true;
}

/// The memory that has an age of its own: a segment, or an expandable segment with all its mapped memory, by the number
/// of the first of its segments.
std::vector<std::size_t> aged_memory(std::span<const InitialSegment> segments) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < segments.size(); ++i)
    if (i == 0 || segments[i].range != segments[i - 1].range) order.push_back(i);
  return order;
}

std::optional<LateStart> ordered_by_block(const LateStart& start, const FreePlace& recorded,
                                          const FreePlace& replayed) {
  if (!recorded.made || !replayed.made) return std::nullopt;
  LateStart result = start;
  if (result.ages.made.empty()) result.ages.made = default_order(start.state.segments);
  if (!put_before(result.ages.made, start.older, *recorded.made, *replayed.made)) return std::nullopt;
  result.older.emplace_back(*recorded.made, *replayed.made);
  return result;
}

std::optional<LateStart> ordered_by_segment(const LateStart& start, Address recorded, Address replayed) {
  const std::vector<InitialSegment>& segments = start.state.segments;
  const auto old = segment_at(segments, recorded), young = segment_at(segments, replayed);
  if (!old || !young || segments[*old].range == segments[*young].range) return std::nullopt;
  // Numbers change with the order, so what is known is kept by address.
  const auto first_of = [&](Address range) {
    return static_cast<std::size_t>(std::ranges::find(segments, range, &InitialSegment::range) - segments.begin());
  };
  std::vector<std::pair<std::size_t, std::size_t>> older;
  for (const auto& [a, b] : start.older) older.emplace_back(first_of(Address{a}), first_of(Address{b}));
  std::vector<std::size_t> order = aged_memory(segments);
  if (!put_before(order, older, first_of(segments[*old].range), first_of(segments[*young].range))) return std::nullopt;
  LateStart result = start;
  result.older.emplace_back(segments[*old].range.value, segments[*young].range.value);
  std::size_t to = 0;
  for (const std::size_t first : order)
    for (std::size_t from = first; from < segments.size() && segments[from].range == segments[first].range;
         ++from, ++to) {
      result.state.segments[to] = segments[from];
      result.state.pool_stream[to] = start.state.pool_stream[from];
    }
  return result;
}

/// The free block begins later, by so much that it is too small for the request.
std::optional<LateStart> with_shorter(const LateStart& start, const FreePlace& free, Bytes wanted,
                                      const TorchSettings& settings) {
  const auto at = segment_at(start.state.segments, free.address);
  if (!at || free.size < wanted) return std::nullopt;
  const InitialSegment& segment = start.state.segments[*at];
  if (segment.small || segment.mapped) return std::nullopt;  // all that is left over is split off
  const Bytes more = free.size - wanted + (settings.leaves_exact() ? 1_B : TorchSettings::min_block);
  Address end = segment.address;
  for (std::size_t b = 0; b + 1 < segment.blocks.size(); ++b) {
    end = end + segment.blocks[b].size;
    if (end != free.address) continue;
    if (segment.blocks[b].use == InitialUse::free || segment.blocks[b + 1].use != InitialUse::free ||
        more > TorchSettings::max_small || segment.blocks[b + 1].size <= more)
      return std::nullopt;
    LateStart result = start;
    result.state.segments[*at].blocks[b].size += more;
    result.state.segments[*at].blocks[b + 1].size -= more;
    return result;
  }
  return std::nullopt;
}

/// What was released had been unused for `searches` more than what was not.
std::optional<LateStart> unused_for(const LateStart& start, std::span<const Address> released, std::uint64_t searches) {
  LateStart result = start;
  bool any = false;
  for (const Address address : released) {
    const auto at = segment_at(start.state.segments, address);
    if (!at || start.state.segments[*at].blocks.front().use != InitialUse::free) continue;
    any = true;
    result.ages.unused[address] += searches;
  }
  return any ? std::optional(result) : std::nullopt;
}

}  // namespace

std::vector<LateStart> LateStart::explanations(const LateDifference& difference, const TorchSettings& settings) const {
  std::vector<LateStart> result;
  const auto add = [&](std::optional<LateStart> start) {
    if (start) result.push_back(*std::move(start));
  };
  const std::optional<FreePlace>& recorded = difference.recorded;
  const std::optional<FreePlace>& replayed = difference.replayed;
  // An expandable block counts with the size it can grow to.
  if (recorded && replayed && (recorded->size == replayed->size || settings.expandable)) {
    if (settings.release.tie_break() == TorchRelease::TieBreak::block_counter)
      add(ordered_by_block(*this, *recorded, *replayed));
    if (settings.release.tie_break() == TorchRelease::TieBreak::segment_counter)
      add(ordered_by_segment(*this, recorded->address, replayed->address));
  }
  add(shortened(difference, settings));
  if (settings.garbage_collection_threshold > 0)
    for (const std::uint64_t searches : {1U, 16U, 256U, 4096U, 65'536U, 1U << 20U, 1U << 28U})
      add(unused_for(*this, difference.released, searches));
  return result;
}

std::optional<LateStart> LateStart::shortened(const LateDifference& difference, const TorchSettings& settings) const {
  if (!difference.replayed || difference.wanted == 0_B) return std::nullopt;
  return with_shorter(*this, *difference.replayed, difference.wanted, settings);
}

std::string unknown_of(const LateDifference& difference, const TorchSettings& settings) {
  if (settings.garbage_collection_threshold > 0 && (difference.wanted == 0_B || !difference.released.empty()))
    return "how long its free memory had been unused when it began, which garbage_collection_threshold asks for";
  if (difference.recorded && difference.replayed && difference.recorded->size == difference.replayed->size &&
      settings.release.tie_break() != TorchRelease::TieBreak::address)
    return "which of its free blocks of equal size was the oldest when it began";
  return "how large the blocks of its oldest allocations were, beyond what was requested";
}

}  // namespace memreel
