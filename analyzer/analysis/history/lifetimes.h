// SPDX-License-Identifier: Apache-2.0
// When each allocation of a trace began and ended, and the resulting totals of every heap.
#pragma once

#include <limits>

#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel {

// Memory allocated before a recording began.

struct HeapHistory;

/// Whether `stack` belongs to something allocated before the recording began: its outermost frame says so.
inline bool is_preexisting(const Tables& tables, StackId stack) {
  if (stack == StackId::none) return false;
  while (tables[stack].caller != StackId::none) stack = tables[stack].caller;
  return tables[tables[tables[stack].frame].function] == preexisting_frame;
}

/// Whether the recording holds what a program did, not only what it held at one instant.
inline bool has_history(const Trace& trace) {
  if (is_no_history(trace.losses.skipped)) return false;
  for (const std::uint32_t event : trace.events.begins())
    if (!is_preexisting(trace.tables, trace.events.stack(event))) return true;
  return trace.events.allocation_count() == 0;
}

/// Whether the recording holds one instant, and so no peak. A series of instants has one, and sums name theirs.
inline bool is_instant(const Trace& trace) {
  return !has_history(trace) && trace.header.source != sums_source && trace.losses.skipped != all_between_instants();
}

/// Whether the recording says what the program held. Where it has no allocations because none were recorded, that is
/// unknown, not nothing.
inline bool tells_live_memory(const Trace& trace) {
  const EventKinds skipped = trace.losses.skipped;
  return !skipped.contains(EventKind::alloc) || is_no_history(skipped) || trace.events.allocation_count() > 0;
}

/// Whether a heap had reserved its peak before the recording began: nothing that was recorded made it grow further.
bool inherits_peak(const Trace& trace, const HeapHistory& heap);

/// By AllocationId, whether it was made before the recording began. It stands at the beginning of the trace, in no
/// order of the program.
inline std::vector<char> older_allocations(const Trace& trace) {
  const Tables& tables = trace.tables;
  std::vector<char> is_of_older(tables.stacks.size());
  for (std::uint32_t s = 1; s < is_of_older.size(); ++s) {
    const Stack& stack = tables.stacks[s];
    is_of_older[s] = stack.caller != StackId::none
                         ? is_of_older[index(stack.caller)]  // callers come first
                         : static_cast<char>(tables[tables[stack.frame].function] == preexisting_frame);
  }
  std::vector<char> older;
  older.reserve(trace.events.allocation_count());
  for (const std::uint32_t event : trace.events.begins())
    older.push_back(is_of_older[index(trace.events.stack(event))]);
  return older;
}

inline constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

/// Event indices of one allocation's life; `never` if the trace lacks the event.
struct Lifetime {
  std::uint32_t begin = never;      // alloc
  std::uint32_t requested = never;  // free_requested
  std::uint32_t completed = never;  // free_completed

  /// Whether the allocation is live after the first `events` events of the trace.
  bool live_after(std::uint64_t events) const { return begin < events && requested >= events; }
};

/// One entry per AllocationId.
std::vector<Lifetime> lifetimes(const Trace& trace);

/// Totals of the recorded events of one heap. "Live" is requested bytes, from alloc to free_requested.
struct HeapHistory {
  HeapId heap = HeapId::none;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;
  Bytes peak_live, end_live;
  Bytes peak_reserved, end_reserved;
  std::uint64_t peak_live_event = 0;  // index of the event that reached the peak first
  /// Reserved memory often stays at its peak for long. Of all instants at which it has, the tightest counts, because
  /// only what is free then was never needed: index of the event after which most was live.
  std::uint64_t peak_reserved_event = 0;
  Bytes live_at_peak_reserved;          // after that event
  std::uint64_t peak_growth_event = 0;  // index of the event after which reserved memory was first at its peak
  bool is_sampled = false;              // reserved bytes are known from samples, not from segments
  std::uint64_t end_live_allocations = 0;
};

/// Adds up the events of one heap, which must be complete: frees have their allocation's size.
class HeapTally {
 public:
  HeapTally(const Tables& tables, HeapId heap) : samples_reserved_(is_torch_heap(tables, heap)) {
    history_.heap = heap;
  }

  /// `at`: the event's index in the trace.
  void add(const Event& event, std::uint64_t at);
  bool has_memory() const {
    return history_.allocations != 0 || history_.frees != 0 || history_.failures != 0 || history_.peak_reserved != 0_B;
  }
  const HeapHistory& history() const { return history_; }

 private:
  void reserve(Bytes reserved, std::uint64_t at);
  void see_reserved(std::uint64_t at);

  HeapHistory history_;
  bool samples_reserved_;
};

/// One entry per heap with memory events, by heap id.
std::vector<HeapHistory> heap_histories(const Trace& trace);

}  // namespace memreel
