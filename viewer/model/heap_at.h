// What a heap looks like at an instant.
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
  Bytes taken;           // with rounding, where that is known
  bool pending = false;  // freed, and still in use by the device

  Address end() const { return address + taken; }
  friend bool operator==(const HeldBlock&, const HeldBlock&) = default;
};

/// A segment at an instant, or a run of neighbouring ones that were mapped one by one for the same pool and stream.
struct HeldSegment {
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;
  bool mapped = false;
  std::uint32_t begin = 0;                    // event since which all of it is there
  std::uint32_t first_block = 0, blocks = 0;  // in HeapAt::blocks
  Bytes held;                                 // in them
  Bytes rounding;                             // of them
  Address largest_gap;
  Bytes largest_gap_size;

  Address end() const { return address + size; }
};

struct HeapAt {
  HeapId heap = HeapId::none;
  std::uint32_t event = 0;                   // how many events precede it
  std::vector<HeldBlock> blocks;             // by address
  std::vector<HeldSegment> segments;         // by address
  std::optional<std::uint32_t> largest_gap;  // the segment that has it
  /// The blocks on either side of it, in its segment: without them it would be larger, or could be given back.
  std::optional<std::uint32_t> pin_before, pin_after;
  Bytes live, pending, reserved;
  std::optional<Bytes> rounding;  // of all blocks, pending ones included; none where it is not known

  /// The block that `address` lies in.
  const HeldBlock* block_at(Address address) const;
  const HeldSegment* segment_at(Address address) const;
};

/// The state of `heap` after `events` events. Looks at what is held then and at the allocations since the last
/// keyframe. Without `rounding`, or where it does not know the heap, blocks take what was requested.
HeapAt heap_at(const Document& document, HeapId heap, std::uint32_t events, const Rounding* rounding = nullptr);

/// The allocations of `heap` held after `events` events, by id.
std::vector<std::uint32_t> held_at(const Document& document, HeapId heap, std::uint32_t events);

}  // namespace memreel::viewer
