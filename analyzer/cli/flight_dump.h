// SPDX-License-Identifier: Apache-2.0
// What the recorder asks of memreel about a flight dump: whether it is whole, and why a request failed.
#pragma once

#include <span>

#include "analyzer/cli/output.h"
#include "formats/model/trace.h"

namespace memreel::cli {

/// Two lines about the last failed request: who held the memory, by category where known; whether it failed by
/// fragmentation, and which setting would have served it. A single line that says so if no request failed. `trace` is
/// the unmodified recording.
std::vector<std::string> failure_lines(Trace trace);

// memreel as a helper process of a program whose request for memory failed: run by memreel's library or its Python
// package, never by a user.

/// Turns a child of the program into a helper: unblocks all signals, leaves the program's process group so that signals
/// to the group don't end it, lowers its priority, limits its run time to a minute, and closes all files except 0 to
/// `last_file`.
void settle_in(int last_file);

/// Prints each line to the program's standard error, after "memreel: ".
void say(const std::vector<std::string>& lines);

/// The lines about the last failure in `dump`, a trace or any importable file, and the path of the file. `otherwise`:
/// what is known about the failure if the file can't be read.
std::vector<std::string> lines_of_dump(const std::string& dump, const std::string& otherwise);

/// "memreel failure-lines FILE TEXT": prints lines_of_dump(). Run by memreel.torch_oom_hook() of the Python package.
Exit say_failure_lines(std::span<char* const> arguments);

/// "memreel flight-dump FILE MODE failure|other TEXT": run by the library in a recorded program, never by a user.
/// Writes the trace open as file descriptor 3 to FILE, prints the reason of a failure and the location of the dump to
/// the program's standard error, and reports "ok" or the error on file descriptor 4. Ends after a minute.
Exit flight_dump(std::span<char* const> arguments);

}  // namespace memreel::cli
