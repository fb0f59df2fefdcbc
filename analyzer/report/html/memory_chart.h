// The memory of a heap over time, as self-contained HTML charts.
#pragma once

#include <string>

#include "analyzer/insight/category_timeline.h"
#include "analyzer/insight/timeline.h"

namespace memreel {

/// An SVG that stretches to the width of the page, with axes. Size: below 200 bytes per column.
std::string memory_chart(const MemoryTimeline& timeline);

/// Live memory stacked by category. `timeline`: of the same heap and columns. Below 80 bytes per column.
std::string category_chart(const MemoryTimeline& timeline, const CategoryTimeline& categories);

}  // namespace memreel
