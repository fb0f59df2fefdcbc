// SPDX-License-Identifier: Apache-2.0
// The metrics of torch.cuda.memory_summary(), for a history instead of a running process.
//
// Meanings as in c10/core/CachingDeviceAllocator.h and c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11:
// - allocated: handed out and not freed; block sizes, so after rounding;
// - active: allocated, or freed while the device is still busy with it;
// - requested: the requested bytes of active blocks;
// - reserved: segments held from the device;
// - inactive split ("non-releasable"): free blocks that share their segment with others, so that the segment can't be
//   released.
#pragma once

#include <span>

#include "analyzer/replay/engine/prepared.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// One metric over a history, in bytes or a count.
struct Statistic {
  std::uint64_t current = 0;  // at the end
  std::uint64_t peak = 0;
  std::uint64_t allocated = 0;  // sum of all increases
  std::uint64_t freed = 0;      // sum of all decreases

  void increase(std::uint64_t by) {
    current += by;
    allocated += by;
    if (current > peak) peak = current;
  }
  void decrease(std::uint64_t by) {
    current -= by;
    freed += by;
  }
  friend bool operator==(const Statistic&, const Statistic&) = default;
};

/// A metric of the whole allocator and of its two kinds of pools.
struct PoolStatistics {
  Statistic all, large, small;
  friend bool operator==(const PoolStatistics&, const PoolStatistics&) = default;
};

struct MemorySummary {
  HeapId heap = HeapId::none;
  std::int32_t device = 0;
  bool exact = false;  // the simulated allocator reproduced the recording; otherwise the metrics are an estimate

  PoolStatistics allocated_bytes, active_bytes, requested_bytes, reserved_bytes, inactive_split_bytes;
  PoolStatistics allocations, active, segments, inactive_split;  // counts
  Statistic oversize_allocations, oversize_segments;             // of at least max_split_size; counts
  std::uint64_t alloc_retries = 0;                               // requests for which every unused segment was released
  std::uint64_t ooms = 0;                                        // requests that failed
};

/// One summary per heap of PyTorch's allocator, from walking its history as verify() does. Errors: there is no such
/// heap.
Result<std::vector<MemorySummary>> memory_summaries(const Trace& trace);
/// The same for heaps that prepare() made of the trace.
Result<std::vector<MemorySummary>> memory_summaries(const Trace& trace, std::span<const Prepared> heaps);

}  // namespace memreel
