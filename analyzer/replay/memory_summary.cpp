// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/memory_summary.h"

#include "analyzer/replay/prepare.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/torch_rules.h"

namespace memreel {
namespace {

void increase(PoolStatistics& statistics, bool small, std::uint64_t by) {
  statistics.all.increase(by);
  (small ? statistics.small : statistics.large).increase(by);
}

void decrease(PoolStatistics& statistics, bool small, std::uint64_t by) {
  statistics.all.decrease(by);
  (small ? statistics.small : statistics.large).decrease(by);
}

/// A net change counts as an increase or a decrease, never as both.
void change(PoolStatistics& statistics, bool small, std::uint64_t up, std::uint64_t down) {
  if (up > down) increase(statistics, small, up - down);
  if (down > up) decrease(statistics, small, down - up);
}

/// Maintains the allocator's statistics.
class SummaryObserver {
 public:
  SummaryObserver(std::uint32_t slots, Bytes oversize, MemorySummary& summary)
      : requested_(slots), oversize_(oversize), summary_(&summary) {}

  void segment_reserved(bool small, Bytes size) {
    increase(summary_->segments, small, 1);
    increase(summary_->reserved_bytes, small, size.count);
    if (size >= oversize_) summary_->oversize_segments.increase(1);
  }
  void segment_released(bool small, Bytes size) {
    decrease(summary_->segments, small, 1);
    decrease(summary_->reserved_bytes, small, size.count);
    if (size >= oversize_) summary_->oversize_segments.decrease(1);
  }
  void mapped(const MappedBytes& memory) { increase(summary_->reserved_bytes, memory.small, memory.size.count); }
  void unmapped(const MappedBytes& memory) { decrease(summary_->reserved_bytes, memory.small, memory.size.count); }
  void allocated(std::uint32_t slot, bool small, Bytes requested, Bytes taken, Bytes left, bool was_split) {
    // The block found is no longer a free piece of a segment; its remainder is one.
    const bool leaves = left.count > 0;
    change(summary_->inactive_split, small, leaves ? 1 : 0, was_split ? 1 : 0);
    change(summary_->inactive_split_bytes, small, left.count, was_split ? (taken + left).count : 0);
    requested_[slot] = requested;
    increase(summary_->allocations, small, 1);
    increase(summary_->allocated_bytes, small, taken.count);
    increase(summary_->active, small, 1);
    increase(summary_->active_bytes, small, taken.count);
    increase(summary_->requested_bytes, small, requested.count);
    if (taken >= oversize_) summary_->oversize_allocations.increase(1);
  }
  void freed(bool small, Bytes size) {
    decrease(summary_->allocations, small, 1);
    decrease(summary_->allocated_bytes, small, size.count);
    if (size >= oversize_) summary_->oversize_allocations.decrease(1);
  }
  void completed(std::uint32_t slot, bool small, Bytes size, std::uint64_t merged, Bytes merged_bytes, bool is_split) {
    change(summary_->inactive_split, small, is_split ? 1 : 0, merged);
    change(summary_->inactive_split_bytes, small, is_split ? (size + merged_bytes).count : 0, merged_bytes.count);
    decrease(summary_->active, small, 1);
    decrease(summary_->active_bytes, small, size.count);
    decrease(summary_->requested_bytes, small, requested_[slot].count);
  }
  void held(std::uint32_t slot, bool small, const Block& block, Bytes requested) {
    if (block.state == BlockState::free) {
      change(summary_->inactive_split, small, block.is_split() && !block.expandable ? 1 : 0, 0);
      change(summary_->inactive_split_bytes, small, block.is_split() && !block.expandable ? block.size.count : 0, 0);
      return;
    }
    requested_[slot] = requested;
    increase(summary_->active, small, 1);
    increase(summary_->active_bytes, small, block.size.count);
    increase(summary_->requested_bytes, small, requested.count);
    if (block.state == BlockState::pending) return;
    increase(summary_->allocations, small, 1);
    increase(summary_->allocated_bytes, small, block.size.count);
    if (block.size >= oversize_) summary_->oversize_allocations.increase(1);
  }
  void retried() { ++summary_->alloc_retries; }
  void failed() { ++summary_->ooms; }

 private:
  std::vector<Bytes> requested_;  // by slot
  Bytes oversize_;
  MemorySummary* summary_;
};

MemorySummary summarize(const Trace& trace, const Prepared& heap) {
  MemorySummary summary{.heap = heap.heap, .device = heap.device};
  const TorchSettings settings = TorchSettings::recorded(heap.settings);
  RecordedDevice device(trace, heap, recorded_capacity(trace, heap, settings));
  bool same = true;
  const auto compare = [&](auto& policy, auto real) {
    run_recorded(heap, heap.count(), policy, device, [&](std::size_t row, bool served) {
      if (heap.op[row] == Op::alloc)
        same &= served && real(policy.block_of(heap.slot[row]).address) == trace.events.address(heap.event[row]);
      if (heap.op[row] == Op::alloc_failed) same &= !served;
      return true;
    });
  };
  with_torch(heap, settings, device, compare, SummaryObserver(heap.slot_count + 1, settings.max_split_size, summary));
  device.finish();
  // A late start has all of the allocator's state, but not what it had counted by then.
  summary.exact = same && !device.mismatch() && !heap.initial && why_not_reproducible(trace, heap).empty();
  return summary;
}

}  // namespace

Result<std::vector<MemorySummary>> memory_summaries(const Trace& trace) {
  return memory_summaries(trace, prepare(trace));
}

Result<std::vector<MemorySummary>> memory_summaries(const Trace& trace, std::span<const Prepared> heaps) {
  std::vector<MemorySummary> summaries;
  for (const Prepared& heap : heaps)
    if (is_torch(trace, heap)) summaries.push_back(summarize(trace, heap));
  if (summaries.empty())
    return Error{.what = "no heap of this trace is PyTorch's allocator", .where = trace.header.source_name};
  return summaries;
}

}  // namespace memreel
