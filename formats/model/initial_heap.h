// SPDX-License-Identifier: Apache-2.0
// What an allocator held when its recording began, and how it was divided.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel {

enum class InitialUse : std::uint8_t {
  free = 0,
  allocated = 1,
  pending = 2,  // freed by the program, still in use by the device
};

/// A piece of a segment. What was taken for an allocation includes what rounding added and what was not split off; who
/// made the allocation, and the size requested, is in the event that stands for it.
struct InitialBlock {
  Bytes size;  // above 0
  InitialUse use = InitialUse::free;

  friend bool operator==(const InitialBlock&, const InitialBlock&) = default;
};

/// Memory held from the device: a segment, or adjacent mapped memory in a range of addresses.
struct InitialSegment {
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;  // its pool and stream
  bool small = false;                // serves small requests only (PyTorch: up to 1 MiB)
  bool mapped = false;               // part of an expandable segment
  Address range;                     // of an expandable segment: where it begins; else `address`
  std::vector<InitialBlock> blocks;  // from the front, without gaps; no two free ones are adjacent

  friend bool operator==(const InitialSegment&, const InitialSegment&) = default;
};

/// A heap whose state before its first recorded operation is known. Its first events stand for the same memory: an
/// alloc, and for a pending block its free_requested, for each block that is not free, in order of addresses.
struct InitialHeap {
  HeapId heap = HeapId::none;
  std::vector<InitialSegment> segments;  // by address, disjoint

  friend bool operator==(const InitialHeap&, const InitialHeap&) = default;
};

}  // namespace memreel
