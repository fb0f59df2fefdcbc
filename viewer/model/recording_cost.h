// What the recording itself took.
#pragma once

#include <optional>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// Share of the time of the trace that our own recorder took on the program's threads, all of them together: an
/// estimate, the number of events times what one was measured to cost (docs/measurements.md). None for traces that
/// another tool recorded.
std::optional<double> recording_share(const Document& document);

}  // namespace memreel::viewer
