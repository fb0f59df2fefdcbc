// What memreel-record, memreel-attach and memreel-top have in common as commands of memreel.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/result.h"

namespace memreel::record {

/// The exit code of bad usage and of whatever can't be done, as in every command of memreel.
inline constexpr int unusable = 2;

/// To standard error, as it is.
void say(std::string_view text);

/// One line on standard error. Returns `unusable`.
int fail(const Error& error);

/// Parses the arguments of a program that `memreel NAME` runs as `memreel-... NAME ARGUMENTS...`; the name may be
/// missing. Returns the exit code where there is nothing left to do: --help, --version, or an error, which is shown.
std::optional<int> parse(CLI::App& app, std::string_view name, int argc, char** argv);

/// Runs the command `name`. What no function of this project throws, libraries may: it is shown as an error.
int guarded(std::string_view name, int (*command)(int, char**), int argc, char** argv);

}  // namespace memreel::record
