// The memory of a heap over time, as pictures in HTML that need nothing else.
#pragma once

#include <string>

#include "analyzer/insight/category_timeline.h"
#include "analyzer/insight/timeline.h"

namespace memreel {

/// An SVG that stretches to the width of the page, with its axes. Size: below 200 bytes per column.
std::string memory_chart(const MemoryTimeline& timeline);

/// What is live, stacked by what it is for. `timeline`: of the same heap and columns. Below 80 bytes per column.
std::string category_chart(const MemoryTimeline& timeline, const CategoryTimeline& categories);

}  // namespace memreel
