// Blocks that are mapped a second time, one behind the other: which pages belong to which, and how many are in use.
//
// A stitched block knows its pages as ranges of addresses of the blocks below it. These are split and merged while it
// exists, so the way from a block to what is stitched over it is kept by block and carried along.
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
    std::vector<Extent> pieces;  // in the order of their mapping
    std::uint32_t arena = 0;
    Bytes used;           // of its pages, by whomever
    Bytes taken;          // from its front, by its own allocation; 0 without one
    bool doomed = false;  // a segment under it is gone: not to be used again

    bool is_available() const { return used == Bytes{} && taken == Bytes{} && !doomed; }
  };

  /// Of blocks in `table`, which must outlive this.
  explicit Stitches(const BlockTable& table) : table_(table) {}

  Stitched& operator[](Id id) { return stitched_[id]; }
  const Stitched& operator[](Id id) const { return stitched_[id]; }

  /// Stitches blocks together, all of whose pages are in use.
  Id add(Address address, const std::vector<BlockId>& blocks, std::uint32_t arena);
  /// Forgets a stitched block.
  void remove(Id id);
  /// Every stitched block there is.
  std::vector<Id> all() const;

  /// What is stitched over a block.
  const std::vector<Id>& over(BlockId id) const;
  /// How many bytes of a block are in a stitched block.
  Bytes common(Id id, BlockId block) const;
  /// The block that has this address; it must be one that something is stitched over.
  BlockId block_at(Address address) const;

  // The table was changed.
  /// `tail` was split into `front` and what it is now.
  void was_split(BlockId front, BlockId tail);
  /// To be called before `id` takes over `gone`, a neighbour.
  void will_merge(BlockId id, BlockId gone);
  /// ... and after.
  void was_merged(BlockId id);
  /// To be called before a block is removed.
  void will_remove(BlockId id);

 private:
  std::vector<Id>& list_of(BlockId id);
  void enter(BlockId id);

  const BlockTable& table_;
  std::vector<Stitched> stitched_;
  std::vector<Id> vacant_;
  std::vector<std::vector<Id>> over_;      // by block
  std::map<Address, BlockId> by_address_;  // blocks that something is stitched over
};

}  // namespace memreel
