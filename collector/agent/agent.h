// The library's life in a process: when it records, when it does not, and what it says about that.
#pragma once

#include <string_view>

namespace memreel::agent {

/// Begins to record this process as its environment says. Does nothing when it records already, or is told to stay
/// dormant, or has failed to: a message says so, and the program runs on unrecorded. Any thread. True while recording.
bool start();

/// Completes the trace. `why` goes into the journal; empty: the program ends. Does nothing when nothing is recorded.
void stop(std::string_view why);

/// Begins to record again after stop(), or when dormant, into another file.
bool restart();

}  // namespace memreel::agent
