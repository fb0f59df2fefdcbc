// The recording options on the command line, shared by started and running programs.
#pragma once

#include <CLI/CLI.hpp>

#include "collector/options/options.h"

namespace memreel::record {

/// All options except the output name. `options` must outlive the parsing.
void add_recording_options(CLI::App& app, agent::Options& options);

}  // namespace memreel::record
