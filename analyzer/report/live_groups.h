// Who holds the memory at an instant, by a chosen grouping.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/category/classify.h"
#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

enum class GroupBy : std::uint8_t {
  stack,
  line,      // of the explaining frame (own_frame.h)
  function,  // likewise
  module,    // native: of the innermost frame
  library,   // the first outside CUDA and PyTorch's allocators; Python frames count as their package; NCCL's
             // communicators
  layer,     // the module calls that the stack lies in
  category,
  phase,
  thread,
  stream,
  pool,
  device,
  metadata  // what the program attached: PyTorch's user_metadata
};

/// "stack", "line"...; nothing if there is no such grouping.
std::optional<GroupBy> group_by_name(std::string_view name);
std::string_view name_of(GroupBy by);
std::vector<std::string_view> group_by_names();

struct LiveGroup {
  std::string label;              // one line
  StackId stack = StackId::none;  // the largest stack of the group; its only one if grouped by stack
  Bytes bytes;
  std::uint64_t count = 0;
  std::vector<AllocationId> allocations;  // by id
};

/// Whether live_groups() needs the trace's categories for this grouping.
bool needs_categories(GroupBy by);

/// The allocations of `heap` that are live after the first `events` events, largest group first; ties by label.
/// `categories`: of the trace; may be empty unless needs_categories(by).
std::vector<LiveGroup> live_groups(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories,
                                   HeapId heap, std::uint64_t events, GroupBy by);

}  // namespace memreel
