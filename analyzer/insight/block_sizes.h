// How much of its segment each allocation takes: requested bytes, rounding, and the remainder that was not split off.
#pragma once

#include <optional>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// Derived from a recording by the rules of its allocators. Memory: 8 bytes per allocation.
struct RecordedBlocks {
  std::vector<Bytes> sizes;       // by AllocationId; at least the requested bytes
  std::vector<Bytes> large_runs;  // by HeapId: the unit in which the large pools map and unmap (expandable segments)
};

/// Recordings have requests and addresses, not blocks. For PyTorch's allocator, the blocks follow from its rules
/// (torch_settings.h) and from the positions of neighbours: a request of the large pools takes the front of a free
/// block, and also its remainder if that is 1 MiB or less or the request is oversize. The rules of other allocators are
/// not known here: their blocks are as large as requested.
RecordedBlocks recorded_blocks(const Trace& trace);

/// The same event by event, for callers that do not hold the whole trace.
class BlockSizes {
 public:
  /// `tables` must outlive it.
  explicit BlockSizes(const Tables& tables);
  BlockSizes(const BlockSizes&) = delete;
  BlockSizes& operator=(const BlockSizes&) = delete;
  ~BlockSizes();

  /// Processes the next event of the recording; events must come in order and without gaps. Returns what an allocation
  /// takes, nothing for other events.
  std::optional<Bytes> see(const Event& event);
  /// The unit in which the large pools of a heap map and unmap, by its latest settings.
  Bytes large_run(HeapId heap) const;

 private:
  class TorchBlocks;

  const Tables& tables_;
  std::vector<TorchBlocks> heaps_;  // by HeapId
};

/// Whether the heap belongs to PyTorch's caching allocator, whose rules are known.
bool is_torch_heap(const Tables& tables, HeapId heap);

}  // namespace memreel
