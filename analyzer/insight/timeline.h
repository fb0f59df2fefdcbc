// The memory of a heap over time in as many columns as a picture has, with exact minima and maxima.
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

/// What a heap held during one stretch of time: the value at its beginning and all that followed in it.
struct MemoryColumn {
  MemoryRange live;       // requested and not freed
  MemoryRange allocated;  // the same in blocks
  MemoryRange reserved;
};

struct MemoryTimeline {
  HeapId heap = HeapId::none;
  Nanoseconds begin{}, end{};  // of the trace; both 0 when it has no times: columns are then of equally many events
  std::vector<MemoryColumn> columns;
  std::vector<std::size_t> failures;  // columns with a failed request, ascending, each once
};

/// One for each heap that has allocations, in order of their ids.
std::vector<MemoryTimeline> memory_timelines(const Trace& trace, const RecordedBlocks& blocks, std::size_t columns);

}  // namespace memreel
