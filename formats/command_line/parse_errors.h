// SPDX-License-Identifier: Apache-2.0
// What every program says about a command line that it can't follow.
#pragma once

#include <span>
#include <vector>

#include "formats/model/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
class ParseError;
}  // namespace CLI

namespace memreel {

/// The entry of `known` that `word` most likely meant; nothing if none is close.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// "did you mean 'report'?", or `otherwise` if no word of `known` is close.
std::string suggestion(std::string_view word, std::span<const std::string> known, std::string otherwise);

/// "memreel report has no option '--leak' (did you mean '--leaks'?)". `command`: its name; `options`: those it has.
Error unknown_option(const std::string& command, std::string_view option, std::span<const std::string> options);

/// The names of a command's options: "--json", ...
std::vector<std::string> long_options(const CLI::App& command);

/// Why `app` did not accept its arguments, naming the command's own help.
Error usage_error(const CLI::App& app, const CLI::ParseError& problem);

/// After a parse that has thrown: the exit code if help or the version was asked for, which it prints; else why not.
Result<int> answer_parse(const CLI::App& app, const CLI::ParseError& problem);

/// What can't be written to standard output.
Error cut_off_output();

}  // namespace memreel
