// The memory of a heap over time in the columns of a chart, with exact minima and maxima.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/insight/block_sizes.h"
#include "formats/model/trace.h"

namespace memreel {

struct MemoryRange {
  Bytes least, most;

  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

/// The range of a heap's memory during one stretch of time: the value at its beginning and all later ones in it.
struct MemoryColumn {
  MemoryRange live;       // requested and not freed
  MemoryRange allocated;  // the same, in block sizes
  MemoryRange reserved;
};

struct MemoryTimeline {
  HeapId heap = HeapId::none;
  Nanoseconds begin{}, end{};  // of the trace; both 0 if it has no times: columns then have equally many events
  std::vector<MemoryColumn> columns;
  std::vector<std::size_t> failures;  // columns with a failed request, ascending and distinct
};

/// One timeline per heap with allocations, in order of heap ids.
std::vector<MemoryTimeline> memory_timelines(const Trace& trace, const RecordedBlocks& blocks, std::size_t columns);

}  // namespace memreel
