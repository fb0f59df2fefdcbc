// memreel as a helper process of a program whose request for memory failed: run by memreel's library or its Python
// package, never by a user.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/console.h"

namespace memreel::cli {

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

}  // namespace memreel::cli
