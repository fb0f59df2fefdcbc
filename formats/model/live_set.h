// What is live at an instant: allocations and segments of every heap.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/tables.h"

namespace memreel {

struct LiveAllocation {
  AllocationId allocation = AllocationId::none;
  OriginId origin = OriginId::none;
  StackId stack = StackId::none;
  Address address;
  Bytes size;
  bool pending = false;  // free requested, not completed

  friend bool operator==(const LiveAllocation&, const LiveAllocation&) = default;
};

struct LiveSegment {
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;

  friend bool operator==(const LiveSegment&, const LiveSegment&) = default;
};

/// The state of all heaps at one instant, in canonical order.
struct HeapSnapshot {
  std::uint64_t event = 0;                  // how many events precede it
  std::vector<LiveAllocation> allocations;  // by allocation
  std::vector<LiveSegment> segments;        // by address; neighbours that were mapped one by one are merged

  friend bool operator==(const HeapSnapshot&, const HeapSnapshot&) = default;
};

}  // namespace memreel
