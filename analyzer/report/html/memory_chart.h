// The memory of a heap over time, as a picture in HTML that needs nothing else.
#pragma once

#include <string>

#include "analyzer/insight/timeline.h"

namespace memreel {

/// An SVG that stretches to the width of the page, with its axes. Size: below 200 bytes per column.
std::string memory_chart(const MemoryTimeline& timeline);

}  // namespace memreel
