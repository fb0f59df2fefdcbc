// SPDX-License-Identifier: Apache-2.0
// The state of a heap at an instant: its segments, its blocks, and what rounding adds to them.
#pragma once

#include <map>

#include "viewer/model/background.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

/// Tracks the segment events of a trace. Contradictory events are resolved as in LiveSet (formats/model/live_set.h),
/// except that adjacent ranges mapped separately stay separate.
class SegmentHistory {
 public:
  /// A segment event. Returns the change of the reserved bytes of `heap`.
  std::int64_t apply(const Event& event, HeapId heap, std::uint32_t at);

  const Growing<Segment>& segments() const { return segments_; }
  const Growing<LateEvent>& ends() const { return ends_; }
  /// Rows of the segments that have not ended.
  std::vector<std::uint32_t> held() const;

 private:
  using Place = std::pair<HeapId, Address>;

  void begin(const Segment& segment, HeapId heap);
  /// Ends the segments in the range; parts outside it begin as new segments.
  std::int64_t cut(HeapId heap, Address begin, Address end, std::uint32_t at);

  Growing<Segment> segments_;
  Growing<LateEvent> ends_;
  std::map<Place, std::uint32_t> open_;
};

/// Follows from the allocator's rules (analyzer/analysis/insight/heap_map.h). Memory: mostly one to three bytes for
/// each allocation.
struct Rounding {
  std::vector<HeapId> heaps;  // heaps with known rounding
  PackedColumn extra;         // bytes, by allocation; for those that had begun when this was computed

  bool is_known(HeapId heap) const;
  /// 0 if unknown.
  Bytes of(std::uint32_t allocation) const;
};

/// The key is the number of events in the document.
using RoundingJob = Background<std::uint32_t, Rounding>;

/// Whether a heap of the document has known rules, and the trace is short enough to be judged.
bool has_known_rounding(const Document& document);

/// One pass over all events. None when cancelled.
std::optional<Rounding> find_rounding(const Document& document, const Progress& progress);

struct HeldBlock {
  std::uint32_t allocation = 0;
  Address address;
  Bytes size;            // requested
  Bytes taken;           // including rounding, where known
  bool pending = false;  // freed, and still in use by the device

  Address end() const { return address + taken; }
  friend bool operator==(const HeldBlock&, const HeldBlock&) = default;
};

/// A segment at an instant, or a run of adjacent ones mapped separately for the same pool and stream.
struct HeldSegment {
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;
  bool mapped = false;
  std::uint32_t begin = 0;                    // event since which all of it exists
  std::uint32_t first_block = 0, blocks = 0;  // in HeapAt::blocks
  Bytes held;                                 // in them
  Bytes rounding;                             // of them
  Address largest_gap;
  Bytes largest_gap_size;

  Address end() const { return address + size; }
};

struct HeapAt {
  HeapId heap = HeapId::none;
  std::uint32_t event = 0;                   // number of preceding events
  std::vector<HeldBlock> blocks;             // by address
  std::vector<HeldSegment> segments;         // by address
  std::optional<std::uint32_t> largest_gap;  // the segment with the largest gap
  /// The blocks on either side of the gap, in its segment: without them it would be larger, or could be released.
  std::optional<std::uint32_t> pin_before, pin_after;
  Bytes live, pending, reserved;
  std::optional<Bytes> rounding;  // of all blocks, pending ones included; none if unknown

  /// The block that contains `address`.
  const HeldBlock* block_at(Address address) const;
  const HeldSegment* segment_at(Address address) const;
};

/// The state of `heap` after `events` events. Visits the blocks held then and the allocations since the last
/// keyframe. Without `rounding`, or if it does not cover the heap, blocks take their requested size.
HeapAt heap_at(const Document& document, HeapId heap, std::uint32_t events, const Rounding* rounding = nullptr);

/// The allocations of `heap` held after `events` events, by id.
std::vector<std::uint32_t> held_at(const Document& document, HeapId heap, std::uint32_t events);

}  // namespace memreel::viewer
