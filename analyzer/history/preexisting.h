// Memory allocated before a recording began.
#pragma once

#include <vector>

#include "formats/model/no_history.h"
#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel {

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
  for (const std::uint32_t event : trace.allocation_events)
    if (!is_preexisting(trace.tables, trace.events.stack[event])) return true;
  return trace.allocation_events.empty();
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
  older.reserve(trace.allocation_events.size());
  for (const std::uint32_t event : trace.allocation_events)
    older.push_back(is_of_older[index(trace.events.stack[event])]);
  return older;
}

}  // namespace memreel
