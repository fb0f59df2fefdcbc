// What a device held before its history begins.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/import/torch/snapshot.h"

namespace memreel::torch {

struct PreexistingSegment {
  Address address;
  Bytes size;
  PlaceId place{};
  bool mapped = false;  // part of an expandable segment
};

struct PreexistingAllocation {
  Block block;  // pending: its free was requested before, too
  PlaceId place{};
};

struct Preexisting {
  std::vector<PreexistingSegment> segments;        // by address
  std::vector<PreexistingAllocation> allocations;  // by address
  /// An allocation's record is missing although its stack was recorded: it was, and has been overwritten since.
  bool record_lost = false;
};

/// Runs the history from nothing and notes what it takes for granted: memory that is let go of without ever having been
/// acquired, and memory that the snapshot shows but the history does not.
///
/// A second free of memory that was recorded as allocated and freed before is not taken for a sign of that.
Preexisting find_preexisting(const DeviceHistory& history);

}  // namespace memreel::torch
