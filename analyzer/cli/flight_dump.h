// The receiving end of collector/trace/helper_process.h.
#pragma once

#include <span>

#include "analyzer/cli/console.h"

namespace memreel::cli {

/// "memreel flight-dump FILE MODE failure|other TEXT": run by the library in a recorded program, never by a user.
/// Writes the trace open as file descriptor 3 to FILE, prints the reason of a failure and the location of the dump to
/// the program's standard error, and reports "ok" or the error on file descriptor 4. Ends after a minute.
Exit flight_dump(std::span<char* const> arguments);

}  // namespace memreel::cli
