// What a device held before its history begins.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/import/torch/snapshot.h"

namespace memreel::torch {

struct PreexistingSegment {
  Address address;
  Bytes size;
  PoolStreamId pool_stream{};
  bool mapped = false;  // part of an expandable segment
};

struct PreexistingAllocation {
  Block block;  // pending: its free was requested before, too
  PoolStreamId pool_stream{};
};

struct PreexistingAllocations {
  std::vector<PreexistingAllocation> allocations;  // by address
  /// An allocation's record is missing although its stack was recorded: it was, and has been overwritten since.
  bool record_lost = false;
};

// Each of these runs the history from nothing and notes what it takes for granted: memory that is freed without
// ever having been acquired, and memory that the snapshot shows but the history does not.

/// By address.
std::vector<PreexistingSegment> find_preexisting_segments(const DeviceHistory& history);

/// A second free of memory that was recorded as allocated and freed before is not taken for a sign of allocations
/// before.
PreexistingAllocations find_preexisting_allocations(const DeviceHistory& history);

}  // namespace memreel::torch
