// How much of its segment each allocation takes: what was asked for, rounding, and the tail that was not split off.
#pragma once

#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// What follows for a recording from the rules of its allocators. Memory: 8 bytes per allocation.
struct RecordedBlocks {
  std::vector<Bytes> sizes;       // by AllocationId; at least what was requested
  std::vector<Bytes> large_runs;  // by HeapId: what the large pools map and unmap at once (expandable segments)
};

/// Recordings have requests and addresses, not blocks. Of PyTorch's allocator the blocks follow from its rules
/// (torch_settings.h) and from where the neighbours lie: a request of the large pools takes the front of a free block,
/// and the rest of it too when that is 1 MiB or less, or the request is oversize. Of other allocators the rules are not
/// known here: the block is what was asked for.
RecordedBlocks recorded_blocks(const Trace& trace);

/// Whether the heap is PyTorch's caching allocator, whose rules are known.
bool is_torch_heap(const Tables& tables, HeapId heap);

}  // namespace memreel
