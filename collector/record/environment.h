// SPDX-License-Identifier: Apache-2.0
// The environment variables that load the agent into a program.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "collector/options/options.h"
#include "formats/model/result.h"

namespace memreel::record {

// The recording options on the command line, shared by started and running programs.

/// All options except the output name. `options` must outlive the parsing.
void add_recording_options(CLI::App& app, agent::Options& options);

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Injection {
  Variables variables;
  std::vector<std::string> notes;  // for the user: what is lost or was replaced
};

/// libmemreel-agent.so of this installation: next to the program, in ../lib, or in ../lib/memreel. Errors: not found.
Result<std::filesystem::path> find_agent();

/// `lookup` returns this process's own variables: preload lists are extended, another tool's injection is replaced.
Injection injection_of(const std::filesystem::path& agent, const agent::Options& options, const agent::Lookup& lookup);

}  // namespace memreel::record
