// `memreel dump`: has flight recorders written out.
#pragma once

namespace memreel::attach {

/// The command's exit code. `argv[1]` is "dump" or the first argument.
int run_dump(int argc, char** argv);

}  // namespace memreel::attach
