// SPDX-License-Identifier: Apache-2.0
// What a device held before its history began.
#pragma once

#include "formats/import/torch/snapshot.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"

namespace memreel::torch {

struct PreexistingSegment {
  Address address;
  Bytes size;
  PoolStreamId pool_stream{};
  bool mapped = false;  // part of an expandable segment: adjacent memory of one pool and stream
  // As divide() finds.
  bool small = false;  // serves small requests
  Address range;       // of an expandable segment: where it begins
  std::vector<InitialBlock> blocks;
};

struct PreexistingAllocation {
  Block block;  // pending: its free had also been requested before
  PoolStreamId pool_stream{};
};

struct PreexistingMemory {
  std::vector<PreexistingSegment> segments;        // by address
  std::vector<PreexistingAllocation> allocations;  // by address
  /// One of them has a stack, so that it was recorded when it was made: in an earlier recording of the process, or in
  /// this one, whose ring has overwritten it since.
  bool was_recorded = false;
  bool divided = false;  // the segments' blocks are known

  bool empty() const { return segments.empty() && allocations.empty(); }
};

// Each of the first two runs the history from an empty state and notes what it presupposes: memory freed without ever
// having been acquired, and memory in the snapshot but not in the history.

/// Sets `segments`.
void find_preexisting_segments(const DeviceHistory& history, const PoolStreams& pool_streams,
                               PreexistingMemory& memory);

/// Sets `allocations` and `was_recorded`. A second free of memory that was recorded as allocated and freed does not
/// indicate an earlier allocation.
void find_preexisting_allocations(const DeviceHistory& history, PreexistingMemory& memory);

/// Determines how the segments were divided. An allocation's block ends where the snapshot still shows its end, or
/// where memory behind it was first handed out, else where the allocator would have split it (`should_split` in
/// c10/cuda/CUDACachingAllocator.cpp). What lies between blocks was free, since free neighbours merge. Nothing is
/// determined if the allocations don't fit.
///
/// Mapped memory of one class, pool and stream is one expandable segment unless other memory, or a distance that
/// unmapping can't leave, lies between. It begins at the lowest address at which memory was ever mapped in it while
/// some of it was.
void divide(const DeviceHistory& history, const PoolStreams& pool_streams, const TorchSettings& rules,
            PreexistingMemory& memory);

}  // namespace memreel::torch
