// Groups stacks by cause: a list of losses keeps whole graphs, and every layer's line looks like a separate leak.
#pragma once

#include <vector>

#include "analyzer/insight/leaks.h"

namespace memreel {

/// Groups the accused of `findings` whose allocations were made in the same intervals, sets their `cause`, and returns
/// the groups, largest first. Two patterns are the same if nine tenths of their intervals match.
///
/// `births`: for each finding, the intervals in which its allocations were made, ascending and distinct.
std::vector<LeakCause> group_by_cause(const Tables& tables, std::vector<LeakFinding>& findings,
                                      const std::vector<std::vector<std::uint32_t>>& births);

}  // namespace memreel
