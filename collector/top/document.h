// The JSON document of `memreel top` (docs/schema/top.json).
#pragma once

#include <span>

#include "collector/record/document.h"
#include "collector/top/watch.h"

namespace memreel::top {

/// memreel.top/1.
record::Json top_document(std::span<const WatchedProcess> processes);

}  // namespace memreel::top
