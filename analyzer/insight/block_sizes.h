// How much of its segment each allocation takes: what was asked for, rounding, and the tail that was not split off.
#pragma once

#include <optional>
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

/// The same from event to event, for whoever does not hold the whole trace.
class BlockSizes {
 public:
  /// `tables` must outlive it.
  explicit BlockSizes(const Tables& tables);
  BlockSizes(const BlockSizes&) = delete;
  BlockSizes& operator=(const BlockSizes&) = delete;
  ~BlockSizes();

  /// The next event of the recording; all of them, in order. Returns what an allocation takes, nothing for other
  /// events.
  std::optional<Bytes> see(const Event& event);
  /// What the large pools of a heap map and unmap at once, by its latest settings.
  Bytes large_run(HeapId heap) const;

 private:
  class TorchBlocks;

  const Tables& tables_;
  std::vector<TorchBlocks> heaps_;  // by HeapId
};

/// Whether the heap is PyTorch's caching allocator, whose rules are known.
bool is_torch_heap(const Tables& tables, HeapId heap);

}  // namespace memreel
