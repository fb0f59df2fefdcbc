// A periodically redrawn table of what memory is used for while a program is being recorded.
#pragma once

#include <string>

#include "collector/attach/process.h"

namespace memreel::attach {

/// Follows the growing `trace` of `process` and prints to standard output every `interval` seconds, until `duration`
/// seconds have passed (0: no limit), a signal or the key q quits, or the process is gone. Returns true if it is gone.
/// If standard output is not a terminal, prints one line each time.
bool show_live(const KnownProcess& process, const std::string& trace, double interval, double duration);

}  // namespace memreel::attach
