// The cost of the recording itself.
#pragma once

#include <optional>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// The share of the trace's time that memreel's recorder took on all of the program's threads together: an estimate,
/// the number of events times the measured cost of one (docs/measurements.md). None for traces recorded by another
/// tool.
std::optional<double> recording_share(const Document& document);

}  // namespace memreel::viewer
