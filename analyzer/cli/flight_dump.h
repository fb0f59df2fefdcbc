// The other end of collector/trace/helper_process.h.
#pragma once

#include <span>

#include "analyzer/cli/console.h"

namespace memreel::cli {

/// "memreel flight-dump FILE MODE failure|other TEXT": run by the library in a recorded program, never by a user.
/// Writes the trace that is open as file 3 to FILE, says on standard error (the program's) what a failure was about and
/// where the dump is, and tells file 4 how it went: "ok", or why not. It has a minute, after which it ends.
Exit flight_dump(std::span<char* const> arguments);

}  // namespace memreel::cli
