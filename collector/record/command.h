// What memreel-record, memreel-attach and memreel-top share as commands of memreel.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/result.h"

namespace memreel::record {

/// The exit code for bad usage and for anything that can't be done, as in every memreel command.
inline constexpr int unusable = 2;

/// Writes to standard error, verbatim.
void say(std::string_view text);

/// One line on standard error. Returns `unusable`.
int fail(const Error& error);

/// Parses the arguments of a program that `memreel NAME` runs as `memreel-... NAME ARGUMENTS...`; NAME may be missing.
/// Returns the exit code if there is nothing left to do: --help, --version, or an error, which it prints.
std::optional<int> parse(CLI::App& app, std::string_view name, int argc, char** argv);

/// Runs the command `name`. This project's functions don't throw, but libraries may: exceptions are printed as errors.
int guarded(std::string_view name, int (*command)(int, char**), int argc, char** argv);

}  // namespace memreel::record
