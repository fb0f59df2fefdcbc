// Who holds the memory at an instant, grouped the way the question was asked.
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
  line,      // of the frame that explains (own_frame.h)
  function,  // likewise
  module,    // native: of the innermost frame
  library,   // the first outside CUDA and PyTorch's allocators; Python frames count as their package; NCCL's
             // communicators
  layer,     // the calls of modules that the stack lies in
  category,
  phase,
  thread,
  stream,
  pool,
  device,
  metadata  // what the program said of it: PyTorch's user_metadata
};

/// "stack", "line"...; nothing when there is no such grouping.
std::optional<GroupBy> group_by_name(std::string_view name);
std::string_view name_of(GroupBy by);
std::vector<std::string_view> group_by_names();

struct LiveGroup {
  std::string label;              // one line
  StackId stack = StackId::none;  // a stack of the group: the one that holds most; the stack itself when grouped by it
  Bytes bytes;
  std::uint64_t count = 0;
  std::vector<AllocationId> allocations;  // in order of their ids
};

/// Whether live_groups() needs the trace's categories to group so.
bool needs_categories(GroupBy by);

/// The allocations of `heap` that are live after the first `events` events, largest group first; ties by label.
/// `categories`: of the trace; may be empty unless needs_categories(by).
std::vector<LiveGroup> live_groups(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories,
                                   HeapId heap, std::uint64_t events, GroupBy by);

}  // namespace memreel
