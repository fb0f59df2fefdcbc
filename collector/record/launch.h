// SPDX-License-Identifier: Apache-2.0
// How the launcher starts a program: what it must know of it before, and the variables that load the agent.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "collector/options/options.h"
#include "formats/model/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel::record {

// What the launcher must know about a program before starting it.

// memreel's own helper programs, which run alongside the one that started them.

/// The path of a program of this installation: in the directory of the running one.
std::filesystem::path sibling(std::string_view program);

/// A companion's standard streams; -1: closed.
struct Streams {
  int input = -1, output = -1, errors = -1;
};

/// Starts a sibling with no signals blocked and in its own process group, since the terminal's signals are meant for
/// us. It inherits no files except `streams`. The caller must wait for its end. Errors: it could not be started.
Result<pid_t> start_companion(std::string_view program, std::vector<std::string> arguments, const Streams& streams);

/// Why the agent can't be loaded into a program.
enum class Closed : std::uint8_t {
  no,           // it can
  is_static,    // statically linked, without a dynamic loader
  privileged,   // gains rights when it starts (setuid, setgid, capabilities): the loader ignores the environment
  other_class,  // for another CPU architecture, or 32-bit
};

struct Executable {
  std::filesystem::path path;  // with directory
  Closed closed = Closed::no;
};

/// Finds `name` as execvp() would: as a path if it contains a slash, else in the directories of `search` (the value of
/// PATH). A script counts as open; its interpreter is not checked. Errors: the file does not exist, is a directory, or
/// may not be executed.
Result<Executable> find_executable(const std::string& name, const std::string& search);

/// Explains to the user why a program is closed; empty if it is not.
std::string explanation_of(const Executable& executable);

// The environment variables that load the agent into a program.

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
