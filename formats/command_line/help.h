// SPDX-License-Identifier: Apache-2.0
// The --help of every program, fitted to the terminal.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel {

/// Has the help of `app` wrapped to the terminal's width; commands that can be copied stay on one line. Call it before
/// adding subcommands, which inherit it.
void fit_help(CLI::App& app);

}  // namespace memreel
