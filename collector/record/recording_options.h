// The options by which a user says how to record, the same for a program that is started and one that runs.
#pragma once

#include <CLI/CLI.hpp>

#include "collector/options/options.h"

namespace memreel::record {

/// All but the output's name. `options` must outlive the parsing.
void add_recording_options(CLI::App& app, agent::Options& options);

}  // namespace memreel::record
