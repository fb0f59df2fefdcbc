// What a program's user should know at once when a request for memory has failed.
#pragma once

#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel::cli {

/// Two lines about the last request that failed: who held the memory, by category where that is known; whether it is
/// fragmentation, and which setting would have served it. One that says so when none failed. `trace` is as it was
/// recorded.
std::vector<std::string> failure_lines(Trace trace);

}  // namespace memreel::cli
