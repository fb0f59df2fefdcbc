// `memreel dump`: makes flight recorders write dumps.
#pragma once

namespace memreel::attach {

/// Returns the exit code. `argv[1]` is "dump" or the first argument.
int run_dump(int argc, char** argv);

}  // namespace memreel::attach
