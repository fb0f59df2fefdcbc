// Runs a policy over a recorded history, with the device answering as recorded.
#pragma once

#include <cstddef>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/policy.h"
#include "analyzer/replay/recorded_device.h"

namespace memreel {

/// Runs rows 0 .. `rows` - 1 of `heap`. `policy` takes its memory from `device`. Calls `after(row, served)` after each
/// row; returning false stops the run. Rows for which the policy has memory from the start are left out. `served`:
/// whether a request got memory.
template <PoolingPolicy P, class After>
void run_recorded(const Prepared& heap, std::size_t rows, P& policy, RecordedDevice& device, After after) {
  FailedSlots failed(heap.slot_count);
  std::size_t row = 0;
  if constexpr (ResumingPolicy<P>)
    if (heap.initial && policy.resume(*heap.initial)) row = heap.initial->rows;
  for (; row < rows; ++row) {
    const std::uint32_t slot = heap.slot[row];
    const Bytes size = heap.size[row];
    const Op op = heap.op[row];
    bool served = true;
    device.begin(row);
    if (op == Op::alloc) {
      served = policy.allocate(slot, size, heap.pool_stream[row]);
      if (!served) failed.add(slot);
    } else if (op == Op::alloc_failed) {
      served = policy.allocate(heap.slot_count, size, heap.pool_stream[row]);
      if (served) policy.free(heap.slot_count, size);
    } else if (op == Op::empty_cache) {
      policy.empty_cache();
    } else if (op == Op::empty_pool) {
      policy.empty_pool(heap.pool_stream[row]);
    } else if (op == Op::pool_ended) {
      policy.pool_ended(heap.pool_stream[row]);
    } else if (op == Op::pool_restored) {
      if constexpr (RestoringPolicy<P>)
        policy.pool_restored(heap.pool_stream[row], heap.restored_segments[slot].address,
                             heap.restored_segments[slot].size);
    } else if (op == Op::device_synchronized || op == Op::stream_synchronized || op == Op::stream_waits) {
      // not recorded for the heap's own memory
    } else if (failed.contains(slot)) {
      if (op != Op::free_requested) failed.remove(slot);
    } else if (op == Op::free) {
      policy.free(slot, size);
    } else if (op == Op::free_requested) {
      policy.free_requested(slot, size);
    } else {
      policy.free_completed(slot, size);
    }
    device.end();
    if (!after(row, served)) return;
  }
}

}  // namespace memreel
