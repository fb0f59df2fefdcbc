// The state at the end of a trace, as in a PyTorch memory snapshot: segments, and the blocks in them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// How a heap appears in a snapshot.
struct TorchHeap {
  bool shown = false;
  bool has_segments = false;  // else each allocation is a segment
};

/// By HeapId. Host memory is shown if it is PyTorch's: its pinned memory, and what the program itself page-locked.
std::vector<TorchHeap> torch_heaps(const Trace& trace);

/// A block that the program holds, or that it freed while the device still uses it.
struct TorchBlock {
  Address address;
  Bytes size, requested;
  bool pending = false;  // free requested, not completed
  StackId stack = StackId::none;
};

struct TorchSegment {
  std::int32_t device = 0;  // -1: host memory
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;
  bool expandable = false;
  std::vector<TorchBlock> blocks;  // by address, without overlaps
};

/// For all shown heaps, by heap and address. `block_sizes` as in ExportOptions.
std::vector<TorchSegment> torch_segments_at_end(const Trace& trace, std::span<const TorchHeap> heaps,
                                                std::span<const Bytes> block_sizes);

}  // namespace memreel
