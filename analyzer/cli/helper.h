// memreel as a helper of a program whose request for memory failed: run by memreel's library or its Python package,
// never by a user.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/console.h"

namespace memreel::cli {

/// From the surroundings of the program into those of a helper: no signal of its is blocked here, none that is meant
/// for its group ends it, it yields to the program, ends after a minute, and keeps nothing open but files 0 to
/// `last_file`.
void settle_in(int last_file);

/// Each line on standard error (the program's), after "memreel: ".
void say(const std::vector<std::string>& lines);

/// The lines about the last failure in `dump`, a trace or any importable file, and where it is. `otherwise`: what is
/// known of the failure where the file can't be read.
std::vector<std::string> lines_of_dump(const std::string& dump, const std::string& otherwise);

/// "memreel failure-lines FILE TEXT": says lines_of_dump(). Run by memreel.torch_oom_hook() of the Python package.
Exit say_failure_lines(std::span<char* const> arguments);

}  // namespace memreel::cli
