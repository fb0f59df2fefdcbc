// What a device held before its history began.
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
  Block block;  // pending: its free had also been requested before
  PoolStreamId pool_stream{};
};

struct PreexistingAllocations {
  std::vector<PreexistingAllocation> allocations;  // by address
  /// One of them has a stack, so that it was recorded when it was made: in an earlier recording of the process, or in
  /// this one, whose ring has overwritten it since.
  bool was_recorded = false;
};

// Both functions run the history from an empty state and note what it presupposes: memory freed without ever having
// been acquired, and memory in the snapshot but not in the history.

/// By address.
std::vector<PreexistingSegment> find_preexisting_segments(const DeviceHistory& history);

/// A second free of memory that was recorded as allocated and freed does not indicate an earlier allocation.
PreexistingAllocations find_preexisting_allocations(const DeviceHistory& history);

}  // namespace memreel::torch
