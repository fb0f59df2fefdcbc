// What a device's memory was cut into at any moment of a recorded history.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "formats/import/torch/allocator_rules.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/total_bytes.h"

namespace memreel::torch {

/// Memory that a pool got in one piece: a segment, or what was mapped behind one range of addresses.
enum class UnitId : std::uint32_t { none = 0xFFFF'FFFF };

struct Unit {
  std::uint64_t begin = 0, end = 0;  // a range: as far as it was ever mapped
  std::uint64_t stream = 0;
  TotalBytes held;     // none: it was given back
  bool small = false;  // serves small requests
  bool expandable = false;
  bool no_split = false;         // of a MemPool that is so; found out of ranges, where it matters
  bool fresh = true;             // it, or memory in it, was got for the request that follows
  UnitId before = UnitId::none;  // what served the request before it was got, on its stream
};

struct FreeBlock {
  std::uint64_t size = 0, address = 0;
  UnitId unit = UnitId::none;

  /// Best fit takes the first.
  friend bool operator<(const FreeBlock& a, const FreeBlock& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
};

/// Follows a history entry by entry. What it can't make sense of changes nothing.
class RecordedHeap {
 public:
  explicit RecordedHeap(const AllocatorRules& rules) : rules_(rules) {}

  /// For segment_alloc and segment_map. `stream`: whatever tells apart who may not use each other's memory.
  UnitId acquire(const Entry& entry, std::uint64_t stream);
  /// For segment_free and segment_unmap: what lost memory, if anything did.
  UnitId release(const Entry& entry);

  /// The block that an alloc is put at the front of, with what is looked for in it.
  struct Placement {
    FreeBlock block;
    Bytes rounded;
  };
  std::optional<Placement> placement(const Entry& alloc) const;
  void take(const Placement& placement);
  /// For free_completed: what the memory is part of.
  UnitId complete(const Entry& entry);

  /// Calls `visit` with the free blocks that would have been handed out in place of this one if they were of the
  /// same pool, until it returns false.
  void for_each_better(const Placement& placement, auto&& visit) const {
    const Unit& unit = (*this)[placement.block.unit];
    const auto group = free_.find({unit.stream, unit.small});
    if (group == free_.end()) return;
    auto other = group->second.lower_bound({.size = placement.rounded.count});
    for (; other != group->second.end(); ++other) {
      if (!unit.fresh && !(*other < placement.block)) return;
      if (!rules_.may_serve({other->size}, placement.rounded)) return;
      if (other->unit == placement.block.unit || (!unit.fresh && could_grow(*other))) continue;
      if (!visit(*other)) return;
    }
  }

  /// Whether the allocator would find a free block for a request: the best fit, where a block that can grow counts with
  /// what it can grow to, unless it is too large to be handed out. `stream` as in acquire().
  bool would_serve(std::uint64_t stream, Bytes rounded) const;

  /// What an address with memory behind it is part of.
  UnitId unit_at(std::uint64_t address) const;

  /// The free block that an address lies in.
  std::optional<FreeBlock> free_block_at(std::uint64_t address) const;

  /// Whether the allocator, told to release what is unused, would take any of the unit.
  bool has_unused(UnitId id) const;

  const Unit& operator[](UnitId id) const { return units_[static_cast<std::size_t>(id)]; }
  std::size_t unit_count() const { return units_.size(); }
  /// Those that hold memory.
  const std::set<UnitId>& alive() const { return alive_; }

 private:
  struct Piece {
    std::uint64_t size = 0;
    UnitId unit = UnitId::none;
    bool free = false;
  };
  using Pieces = std::map<std::uint64_t, Piece>;  // by address; what is not mapped has none

  Unit& at(UnitId id) { return units_[static_cast<std::size_t>(id)]; }
  /// A range that the memory at `entry` adds to.
  UnitId range_of(const Entry& entry, std::uint64_t stream) const;
  Pieces::iterator piece_at(std::uint64_t address);
  Pieces::const_iterator piece_at(std::uint64_t address) const;
  std::uint64_t run_size(const Unit& unit) const;
  bool could_grow(const FreeBlock& block) const;
  /// Its bytes, and those behind it that nothing is mapped to.
  std::uint64_t capacity(const FreeBlock& block) const;
  void put_free(Pieces::iterator piece);
  void take_out(Pieces::const_iterator piece);
  /// Merges it with free neighbours and makes it free.
  void set_free(Pieces::iterator piece);
  /// What is left of the blocks in a range goes with them, as it does in a pool that never splits.
  void keep_whole(UnitId range);

  const AllocatorRules& rules_;
  std::vector<Unit> units_;
  std::set<UnitId> alive_;
  Pieces pieces_;
  std::set<std::uint64_t> mapped_;                                      // where memory begins that was mapped at once
  std::map<std::pair<std::uint64_t, bool>, std::set<FreeBlock>> free_;  // by stream and whether small
  std::map<std::uint64_t, UnitId> latest_;                              // by stream: what served last
};

}  // namespace memreel::torch
