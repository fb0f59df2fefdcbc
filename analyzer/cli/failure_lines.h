// A short explanation of a failed request, for the program's user.
#pragma once

#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel::cli {

/// Two lines about the last failed request: who held the memory, by category where known; whether it failed by
/// fragmentation, and which setting would have served it. A single line that says so if no request failed. `trace` is
/// the unmodified recording.
std::vector<std::string> failure_lines(Trace trace);

}  // namespace memreel::cli
