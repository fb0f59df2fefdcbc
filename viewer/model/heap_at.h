// The state of a heap at an instant.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "viewer/model/document.h"
#include "viewer/model/rounding.h"

namespace memreel::viewer {

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
