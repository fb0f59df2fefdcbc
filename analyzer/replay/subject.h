// What of a recorded trace is judged.
#pragma once

#include <cstddef>

#include "formats/model/trace.h"

namespace memreel {

/// Makes a trace what every analysis judges, and the viewer shows: its levels are tied (analyzer/history/levels.h), so
/// that nothing is counted twice, and it has the calls that PyTorch's allocator leaves no record of (torch_calls.h).
/// Returns how much that changed; 0: nothing.
std::size_t complete_subject(Trace& trace);

}  // namespace memreel
