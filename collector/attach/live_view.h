// What memory is used for while a program is being recorded, as a table that is drawn again and again.
#pragma once

#include <string>

#include "collector/attach/process.h"

namespace memreel::attach {

/// Follows the growing `trace` of `process` and prints to standard output every `interval` seconds, until `duration`
/// seconds are over (0: never), a signal or the key q asks for the end, or the process is gone. True when it is gone.
/// Where standard output is no terminal, it prints one line each time.
bool show_live(const KnownProcess& process, const std::string& trace, double interval, double duration);

}  // namespace memreel::attach
