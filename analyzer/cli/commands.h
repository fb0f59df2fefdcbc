// The commands of the program `memreel`. Each adds its options and help to the application and stores its exit code in
// `exit` after it ran.
#pragma once

#include <CLI/CLI.hpp>
#include <span>

#include "analyzer/cli/console.h"

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

}  // namespace memreel::cli
