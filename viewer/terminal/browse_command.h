// SPDX-License-Identifier: Apache-2.0
// `memreel browse`: browses a trace in a terminal. Part of the program memreel, which has most of what it needs.
#pragma once

namespace memreel::viewer::terminal {

/// `argv` is "memreel", "browse" and its arguments. Returns the exit code; ends with a signal if one ended it.
int run_browse(int argc, char** argv);

}  // namespace memreel::viewer::terminal
