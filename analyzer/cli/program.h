// The program `memreel`: the command line as a whole.
#pragma once

#include "analyzer/cli/console.h"

namespace memreel::cli {

/// Runs the command that the arguments name. A command of another program (recording, viewing) is executed in place of
/// this one, as git does, if that program is installed beside it.
/// Throws what the standard library and CLI11 throw where memory runs out.
Exit run(int argc, char** argv);

}  // namespace memreel::cli
