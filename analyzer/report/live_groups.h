// Who holds the memory at an instant, grouped the way the question was asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

enum class GroupBy : std::uint8_t { stack, line, function, module, thread, stream, pool, device };

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

/// The allocations of `heap` that are live after the first `events` events, largest group first; ties by label.
std::vector<LiveGroup> live_groups(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap,
                                   std::uint64_t events, GroupBy by);

}  // namespace memreel
