// Blocks that are mapped a second time, one after the other: which pages belong to which, and how many are in use.
//
// A stitched block stores its pages as address ranges of the blocks below it. These are split and merged while it
// exists, so the mapping from a block to the blocks stitched over it is kept per block and updated along the way.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/engine/policy.h"
#include "analyzer/heap/block_table.h"
#include "formats/model/units.h"

namespace memreel {

class Stitches {
 public:
  using Id = std::uint32_t;
  static constexpr Id none = 0xFFFF'FFFF;

  struct Stitched {
    Address address;
    Bytes size;
    std::vector<Extent> pieces;  // in mapping order
    std::uint32_t arena = 0;
    Bytes used;           // of its pages, by any block
    Bytes taken;          // from its front, by its own allocation; 0 without one
    bool doomed = false;  // a segment under it is gone: never reuse it

    bool is_available() const { return used == Bytes{} && taken == Bytes{} && !doomed; }
  };

  /// Of blocks in `table`, which must outlive this object.
  explicit Stitches(const BlockTable& table) : table_(table) {}

  Stitched& operator[](Id id) { return stitched_[id]; }
  const Stitched& operator[](Id id) const { return stitched_[id]; }

  /// Stitches blocks together whose pages are all in use.
  Id add(Address address, const std::vector<BlockId>& blocks, std::uint32_t arena);
  /// Removes a stitched block.
  void remove(Id id);
  /// All stitched blocks.
  std::vector<Id> all() const;

  /// The blocks stitched over a block.
  const std::vector<Id>& over(BlockId id) const;
  /// The number of bytes that a block shares with a stitched block.
  Bytes common(Id id, BlockId block) const;
  /// The block at this address, which must have something stitched over it.
  BlockId block_at(Address address) const;

  // Updates after the table split `tail` into `front` and what `tail` is now.
  void was_split(BlockId front, BlockId tail);
  /// Call before `id` absorbs its neighbour `gone`.
  void will_merge(BlockId id, BlockId gone);
  /// Call after that.
  void was_merged(BlockId id);
  /// Call before a block is removed.
  void will_remove(BlockId id);

 private:
  std::vector<Id>& list_of(BlockId id);
  void enter(BlockId id);

  const BlockTable& table_;
  std::vector<Stitched> stitched_;
  std::vector<Id> vacant_;
  std::vector<std::vector<Id>> over_;      // by block
  std::map<Address, BlockId> by_address_;  // blocks with something stitched over them
};

}  // namespace memreel
