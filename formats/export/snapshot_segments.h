// SPDX-License-Identifier: Apache-2.0
// The state at the end of a trace, as in a PyTorch memory snapshot: segments, the blocks in them, and pinned host
// memory.
#pragma once

#include <map>
#include <set>
#include <span>

#include "formats/model/trace.h"

namespace memreel {

// The state at the end of a trace, as in a PyTorch memory snapshot: segments, and the blocks in them.

/// How a heap appears in a snapshot.
struct TorchHeap {
  bool shown = false;
  bool has_segments = false;  // else each allocation is a segment
};

/// By HeapId. Where there is PyTorch's allocator, its heaps are shown and not what the driver gave to others: a
/// snapshot has no place for that but PyTorch's. Host memory is shown if it is PyTorch's: its pinned memory, and what
/// the program itself page-locked.
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

// PyTorch's pinned host memory, in the form of its own history.

/// The heap of PyTorch's pinned host memory allocator, if there is one.
std::optional<HeapId> torch_host_heap(const Tables& tables);

/// Its settings, as in a snapshot's `allocator_settings`; empty if there is no such heap.
std::vector<std::pair<std::string, std::string>> torch_host_settings(const Trace& trace);

/// Splits the reserve segment (pinned_reserve_segment_size_mb). A trace has it as one segment; PyTorch's history has a
/// segment for each block cut from it, until empty_cache() drops the block.
///
/// Source: ATen/core/CachingHostAllocator.h of PyTorch 2.15. The inverse of formats/import/torch/snapshot_to_trace.h.
class TorchHostReserve {
 public:
  explicit TorchHostReserve(const Trace& trace);

  /// Calls `emit` with the events that replace the trace's next event: usually the event itself.
  void apply(const Event& event, auto&& emit) {
    if (host_ != tables_[event.origin].heap) return emit(event);
    if (event.kind == EventKind::pool_end) ended_.insert(tables_[event.origin].pool);
    if (event.kind == EventKind::empty_cache) drop_free(event, emit);
    if (event.kind == EventKind::segment_alloc && is_reserve(event)) return;
    if (!has_address(event.kind) || !is_inside(event.address)) return emit(event);
    // Already dropped.
    if (event.kind == EventKind::segment_free && !blocks_.contains(event.address)) return;
    if (event.kind == EventKind::alloc && !blocks_.contains(event.address)) emit(of_segment(event));
    note(event);
    emit(event);
  }

 private:
  struct Block {
    Event segment;  // for the latest allocation: its origin and size
    bool free = false;
  };

  /// Whether it is the first segment of the reserve's size; stores its address.
  bool is_reserve(const Event& segment);
  bool is_inside(Address address) const { return address >= begin_ && address < end_; }
  bool is_dropped(const Block& block) const;
  static Event of_segment(Event alloc);
  void note(const Event& event);

  void drop_free(const Event& call, auto&& emit) {
    for (auto block = blocks_.begin(); block != blocks_.end();) {
      if (!is_dropped(block->second)) {
        ++block;
        continue;
      }
      Event dropped = block->second.segment;
      dropped.kind = EventKind::segment_free;
      dropped.stack = call.stack;
      dropped.time = call.time;
      emit(dropped);
      block = blocks_.erase(block);
    }
  }

  const Tables& tables_;
  std::optional<HeapId> host_;
  Bytes size_;           // 0: no reserve
  Address begin_, end_;  // equal until it is allocated
  std::map<Address, Block> blocks_;
  std::set<PoolId> ended_;
};

}  // namespace memreel
