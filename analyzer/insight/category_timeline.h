// The live memory of a heap over time, by category.
#pragma once

#include <array>
#include <vector>

#include "analyzer/category/classify.h"
#include "formats/model/trace.h"

namespace memreel {

using BytesByCategory = std::array<Bytes, category_count>;  // requested bytes, by Category

struct CategoryTimeline {
  HeapId heap = HeapId::none;
  std::vector<BytesByCategory> columns;  // at the moment of most live bytes in that stretch of time
};

/// One timeline per heap with allocations, in order of heap ids. Columns match those of memory_timelines(), so the
/// categories of each column add up to its highest live bytes. `categories`: of the trace.
std::vector<CategoryTimeline> category_timelines(const Trace& trace, const Categories& categories, std::size_t columns);

}  // namespace memreel
