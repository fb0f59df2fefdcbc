// The live memory of a heap over time, by what it is for.
#pragma once

#include <array>
#include <vector>

#include "analyzer/category/classify.h"
#include "formats/model/trace.h"

namespace memreel {

using BytesByCategory = std::array<Bytes, category_count>;  // requested bytes, by Category

struct CategoryTimeline {
  HeapId heap = HeapId::none;
  std::vector<BytesByCategory> columns;  // as they were when most was live during that stretch of time
};

/// One for each heap that has allocations, in order of their ids; columns as those of memory_timelines(), so each
/// column's categories add up to the most that was live in it. `categories`: of the trace.
std::vector<CategoryTimeline> category_timelines(const Trace& trace, const Categories& categories, std::size_t columns);

}  // namespace memreel
