// SPDX-License-Identifier: Apache-2.0
// What memreel-record, memreel-attach and memreel-top share as commands of memreel.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/options/journal.h"
#include "collector/record/child.h"
#include "collector/record/summary.h"
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

// The JSON documents of `memreel record`, `attach` and `detach` (docs/schema).

using Json = nlohmann::ordered_json;

/// The document as written to a file: indented, with a trailing newline. Replaces invalid UTF-8.
std::string document_text(const Json& document);

/// `recorded_trace` of docs/schema/common.json.
Json json_of(const RecordedTrace& trace);

/// memreel.record/1. `program` is its name as the user typed it. Reads every trace.
Json record_document(const std::string& program, const Ending& ending, const std::vector<agent::JournalEntry>& journal);

}  // namespace memreel::record
