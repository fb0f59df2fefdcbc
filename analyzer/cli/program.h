// SPDX-License-Identifier: Apache-2.0
// The program `memreel`: the command line as a whole.
#pragma once

#include <span>

#include "analyzer/cli/output.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

// The commands of the program `memreel`. Each adds its options and help to the application and stores its exit code in
// `exit` after it ran.

namespace memreel::cli {

/// Adds all commands, in the order of the help.
void add_commands(CLI::App& app, Exit& exit);

void add_import_command(CLI::App& app, Exit& exit);
void add_check_command(CLI::App& app, Exit& exit);
void add_demo_command(CLI::App& app, Exit& exit);
void add_diff_command(CLI::App& app, Exit& exit);
void add_explain_command(CLI::App& app, Exit& exit);
void add_export_command(CLI::App& app, Exit& exit);
void add_fleet_command(CLI::App& app, Exit& exit);
void add_info_command(CLI::App& app, Exit& exit);
void add_plan_command(CLI::App& app, Exit& exit);
void add_policies_command(CLI::App& app, Exit& exit);
void add_predict_command(CLI::App& app, Exit& exit);
void add_report_command(CLI::App& app, Exit& exit);
void add_replay_command(CLI::App& app, Exit& exit);
void add_symbols_command(CLI::App& app, Exit& exit);
void add_tune_command(CLI::App& app, Exit& exit);
void add_verify_command(CLI::App& app, Exit& exit);

/// Whether the arguments are those of `memreel view --serve`, which this program handles: the rest of `view` needs a
/// screen.
bool asks_to_serve(std::span<char* const> words);
/// Runs `view --serve`. Returns only if the trace can't be served; otherwise runs until the process ends.
Exit serve_view(std::span<char* const> words);

// The program's help, and its suggestions for unknown words.

/// A command implemented by a separate program in the same directory. `program` is empty for one that memreel.cpp adds
/// to this program, where it was built with it.
struct Sibling {
  std::string_view command, program, description;
};

std::span<const Sibling> siblings();

/// Adds the siblings to the commands and groups all of them by purpose. Call after all commands are added.
void arrange_commands(CLI::App& app);

/// The error for a command line whose command, or one of its options, is unknown; nothing if all are known.
std::optional<Error> unknown_word(CLI::App& app, std::span<char* const> words);

/// Runs the command that the arguments name. A command of another program (recording, viewing) is executed in place of
/// this one, as git does, if that program is installed beside it.
/// Throws what the standard library and CLI11 throw where memory runs out.
Exit run(int argc, char** argv);

}  // namespace memreel::cli

// Parsing of arguments shared by several commands.

namespace memreel::cli {

/// "10GiB", "500MB", plain bytes. Errors name `option`.
Result<Bytes> parse_size(std::string_view text, const char* option);

/// The same for a limit. Errors: also a small number without a unit, which may be meant in GiB.
Result<Bytes> parse_limit(std::string_view text, const char* option);

/// The memory of a device that --capacity gives (parse_device_size). Errors name the option.
Result<Bytes> parse_capacity_size(std::string_view text);

/// The device described by --capacity: a size, or "unlimited". None if the option was not given.
Result<std::optional<DeviceModel>> parse_capacity(std::string_view text);

/// Parses a repeatable option whose values are comma-separated lists.
Result<std::vector<PolicySpec>> parse_policy_lists(std::span<const std::string> texts);

/// After so long a command's replays end, unless --seconds says otherwise: policies differ in what costs them most, and
/// some inputs are the worst case of one.
inline constexpr double most_replay_seconds = 60;

/// Adds --seconds, of a command that runs replays.
void add_seconds_option(CLI::App& command, double& seconds);

std::chrono::steady_clock::time_point deadline_after(double seconds);

}  // namespace memreel::cli
