// SPDX-License-Identifier: Apache-2.0
// How a device's memory was divided at any moment of a recorded history.
#pragma once

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "formats/import/torch/preexisting.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/units.h"
#include "formats/torch/settings.h"

namespace memreel::torch {

// Non-overlapping address ranges, each with a value.

/// Half-open; an end beyond the last address is that address.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  static Range of(std::uint64_t address, std::uint64_t size) {
    constexpr std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
    return {address, size > last - address ? last : address + size};
  }
};

template <class T>
class RangeMap {
 public:
  struct Item {
    Range range;
    T value;
  };

  /// Sets `range` to `value`, overwriting earlier values.
  void set(Range range, const T& value) {
    remove(range);
    if (range.begin < range.end) items_.emplace(range.begin, Tail{range.end, value});
  }

  void remove(Range range) {
    if (range.begin >= range.end) return;
    auto item = first_over(range.begin);
    while (item != items_.end() && item->first < range.end) {
      const std::uint64_t begin = item->first;
      const Tail tail = item->second;
      item = items_.erase(item);
      if (begin < range.begin) items_.emplace(begin, Tail{range.begin, tail.value});
      if (tail.end > range.end) item = std::next(items_.emplace(range.end, Tail{tail.end, tail.value}).first);
    }
  }

  /// The item that contains `address`.
  std::optional<Item> at(std::uint64_t address) const {
    const auto after = items_.upper_bound(address);
    if (after == items_.begin()) return std::nullopt;
    const auto& [begin, tail] = *std::prev(after);
    if (tail.end <= address) return std::nullopt;
    return Item{{begin, tail.end}, tail.value};
  }

  /// Calls `gap(Range)` for each part of `range` without a value.
  template <class Function>
  void for_each_gap(Range range, const Function& gap) const {
    std::uint64_t at = range.begin;
    for (auto item = first_over(range.begin); at < range.end && item != items_.end() && item->first < range.end;
         ++item) {
      if (item->first > at) gap(Range{at, item->first});
      at = item->second.end;
    }
    if (at < range.end) gap(Range{at, range.end});
  }

 private:
  struct Tail {
    std::uint64_t end;
    T value;
  };
  using Items = std::map<std::uint64_t, Tail>;

  typename Items::const_iterator first_over(std::uint64_t address) const {
    auto item = items_.upper_bound(address);
    if (item != items_.begin() && std::prev(item)->second.end > address) --item;
    return item;
  }

  Items items_;
};

/// Memory that a pool allocated as one unit: a segment, or everything mapped in one range of addresses.
enum class UnitId : std::uint32_t { none = 0xFFFF'FFFF };

struct Unit {
  std::uint64_t begin = 0, end = 0;  // a range: as far as it was ever mapped
  std::uint64_t stream = 0;
  TotalBytes held;     // none: it was released
  bool small = false;  // serves small requests
  bool expandable = false;
  bool no_split = false;         // in a MemPool with no_split; found from ranges, where it matters
  std::uint64_t unused = 0;      // whole runs that are free, or 1 for a free segment: what a release would take
  bool fresh = true;             // it, or memory in it, was allocated for the request that follows
  UnitId before = UnitId::none;  // what served the previous request on its stream
};

struct FreeBlock {
  std::uint64_t size = 0, address = 0;
  UnitId unit = UnitId::none;

  /// Best fit takes the first.
  friend bool operator<(const FreeBlock& a, const FreeBlock& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
};

/// Follows a history entry by entry. Entries that make no sense change nothing.
class RecordedHeap {
 public:
  explicit RecordedHeap(const TorchSettings& rules) : rules_(rules) {}

  /// Begins with memory that was held before the history; call first. `stream_of(pool_stream)`: as `stream` below.
  /// Returns the unit of each segment.
  std::vector<UnitId> begin(std::span<const PreexistingSegment> segments, auto stream_of) {
    std::vector<UnitId> units;
    for (const PreexistingSegment& segment : segments)
      units.push_back(hold(segment, stream_of(segment.pool_stream), units.empty() ? UnitId::none : units.back()));
    return units;
  }

  /// For segment_alloc and segment_map. `stream` identifies users that can't use each other's memory.
  UnitId acquire(const Entry& entry, std::uint64_t stream);
  /// For segment_free and segment_unmap: the unit that lost memory, if any.
  UnitId release(const Entry& entry);

  /// The free block at whose start an alloc is placed, and the search key for it.
  struct Placement {
    FreeBlock block;
    Bytes rounded;
  };
  std::optional<Placement> placement(const Entry& alloc) const;
  void take(const Placement& placement);
  /// For free_completed: the unit that contains the memory.
  UnitId complete(const Entry& entry);

  /// Calls `visit` with the free blocks that would have been chosen over this one if they were in the same pool, until
  /// it returns false or `most` were looked at. Returns how many were.
  std::uint64_t for_each_better(const Placement& placement, std::uint64_t most, auto&& visit) const {
    const Unit& unit = (*this)[placement.block.unit];
    const auto group = free_.find({unit.stream, unit.small});
    if (group == free_.end()) return 0;
    auto other = group->second.lower_bound({.size = placement.rounded.count});
    std::uint64_t looked = 0;
    for (; other != group->second.end() && looked < most; ++other, ++looked) {
      if (!unit.fresh && !(*other < placement.block)) break;
      if (!rules_.may_serve({other->size}, placement.rounded)) break;
      if (other->unit == placement.block.unit || (!unit.fresh && could_grow(*other))) continue;
      if (least_size(*other) < placement.rounded.count) continue;
      if (!visit(*other)) break;
    }
    return looked;
  }

  /// Whether the allocator would find a free block for a request: the best fit, where an expandable block counts with
  /// the size it can grow to, unless it is too large to serve the request. `stream` as in acquire().
  bool would_serve(std::uint64_t stream, Bytes rounded) const;

  /// The unit that contains a mapped address.
  UnitId unit_at(std::uint64_t address) const;

  /// The free block that contains an address.
  std::optional<FreeBlock> free_block_at(std::uint64_t address) const;

  /// The units from which the allocator, when releasing unused memory, would take any.
  const std::set<UnitId>& with_unused() const { return with_unused_; }
  /// Whether there is one on a stream for which `wanted(stream)`.
  bool any_unused(auto wanted) const {
    return std::ranges::any_of(unused_, [&](const auto& item) { return item.second > 0 && wanted(item.first); });
  }

  const Unit& operator[](UnitId id) const { return units_[static_cast<std::size_t>(id)]; }
  /// Units that hold memory.
  const std::set<UnitId>& alive() const { return alive_; }

 private:
  struct Piece {
    std::uint64_t size = 0;
    UnitId unit = UnitId::none;
    bool free = false;
    bool older = false;  // large, and taken before the history: it may hold a rest that was too small to be split off
  };
  using Pieces = std::map<std::uint64_t, Piece>;                            // by address; unmapped addresses have none
  using RangeKey = std::tuple<std::uint64_t, bool, std::uint64_t, UnitId>;  // stream, small, begin

  RangeKey key_of(UnitId id) const { return {(*this)[id].stream, (*this)[id].small, (*this)[id].begin, id}; }

  /// `before`: the unit of the segment before.
  UnitId hold(const PreexistingSegment& segment, std::uint64_t stream, UnitId before);
  Unit& at(UnitId id) { return units_[static_cast<std::size_t>(id)]; }
  /// The range that the memory at `entry` extends.
  UnitId range_of(const Entry& entry, std::uint64_t stream) const;
  Pieces::iterator piece_at(std::uint64_t address);
  Pieces::const_iterator piece_at(std::uint64_t address) const;
  /// How much of Unit::unused a free piece is.
  std::uint64_t unused_in(const Unit& unit, Pieces::const_iterator piece) const;
  /// Modulo 2^64.
  void change_unused(UnitId id, std::uint64_t by);
  bool could_grow(const FreeBlock& block) const;
  /// Its bytes, plus the unmapped ones after it.
  std::uint64_t capacity(const FreeBlock& block) const;
  /// How small the block may be, since where an older one before it ends is not known.
  std::uint64_t least_size(const FreeBlock& block) const;
  void put_free(Pieces::iterator piece);
  void take_out(Pieces::const_iterator piece);
  /// Marks it free and merges it with free neighbours.
  void set_free(Pieces::iterator piece);
  /// Releases a range's remaining blocks with it, as in a pool that never splits.
  void keep_whole(UnitId range);

  const TorchSettings& rules_;
  std::vector<Unit> units_;
  std::set<UnitId> alive_, with_unused_;
  std::set<RangeKey> ranges_;  // those of them that are expandable
  Pieces pieces_;
  std::set<std::uint64_t> mapped_;                                      // starts of memory mapped at once
  std::map<std::pair<std::uint64_t, bool>, std::set<FreeBlock>> free_;  // by stream and `small`
  std::map<std::uint64_t, UnitId> latest_;                              // by stream: what served the latest request
  std::map<std::uint64_t, std::uint64_t> unused_;                       // by stream: the sum of Unit::unused
};

}  // namespace memreel::torch
