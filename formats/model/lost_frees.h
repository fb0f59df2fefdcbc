// SPDX-License-Identifier: Apache-2.0
// The frees that a recording lacks because events in it were lost.
#pragma once

#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// The most frees that may be missing between the events of a recording: as many as were dropped, or were in damaged
/// parts.
inline std::uint64_t most_lost_frees(const Losses& losses, const ReadReport& read) {
  return losses.ring_full + losses.hook_refused + read.missing_events;
}

/// Whether there may be any. Then what is live, with the frees that are certain, bounds nothing: others may be missing,
/// and allocations.
inline bool may_lack_frees(const Losses& losses, const ReadReport& read) { return most_lost_frees(losses, read) > 0; }

/// Follows such a recording and adds what must have happened: memory that is handed out again was freed before, what a
/// heap gives back holds no allocations, and a framework hands out what it reserved. Memory: what is live.
class LostFrees {
 public:
  /// `tables` may grow, and must outlive this object.
  explicit LostFrees(const Tables& tables) : tables_(&tables) {}

  /// Appends the next event to `out`, behind the frees that it proves. One that repeats an added free is left out.
  /// Frees need not have the address and size of their allocation.
  void follow(const Event& event, std::vector<Event>& out);

 private:
  struct Block {
    AllocationId allocation = AllocationId::none;
    Bytes size;
    OriginId origin = OriginId::none;
    bool requested = false;  // its free
  };
  struct Segment {
    Bytes size;
    OriginId origin = OriginId::none;
    bool mapped = false;
  };
  using Blocks = std::map<Address, Block>;
  using Segments = std::map<Address, Segment>;
  /// Memory made by cuMemCreate has handles, which may look like addresses.
  struct Space {
    Blocks blocks, handles;
    Segments segments;
    bool has_segments = false;  // a framework's, which says what it reserves
  };
  struct Place {
    Blocks* blocks;
    Address address;
  };

  void allocate(const Event& event, std::vector<Event>& out);
  /// False if an added free stands for it.
  bool free(const Event& event, std::vector<Event>& out);
  void end(Blocks& blocks, Blocks::iterator block, const Event& by, std::vector<Event>& out);
  /// Ends the blocks that overlap the range.
  void end_within(Blocks& blocks, Address begin, Address end, const Event& by, std::vector<Event>& out);
  /// Says that the range is reserved, where that was lost.
  void reserve(Space& space, Address begin, Address end, const Event& by, std::vector<Event>& out);
  /// The first segment of a framework.
  void begin_segments(Space& space, const Event& by, std::vector<Event>& out);
  /// Takes the range out of the segments, and says so if `adds`: nothing else does.
  void give_back(Space& space, Address begin, Address end, bool adds, const Event& by, std::vector<Event>& out);

  const Tables* tables_;
  std::map<HeapId, Space> spaces_;
  std::unordered_map<std::uint32_t, Place> places_;  // by AllocationId
  std::unordered_set<std::uint32_t> ended_;          // by an added free
};

/// The same for a whole trace, if it may lack frees. Returns the number of events added and left out.
std::size_t add_lost_frees(Trace& trace);

}  // namespace memreel
