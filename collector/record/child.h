// SPDX-License-Identifier: Apache-2.0
// A child program run on the user's behalf: signals are passed on to it, and we end as it ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <vector>

#include "formats/model/result.h"

namespace memreel::record {

struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments;                          // the first is the program's name
  std::vector<std::pair<std::string, std::string>> variables;  // set in its environment, besides ours
};

struct Ending {
  pid_t process = 0;
  int code = 0;    // exit code, when `signal` is 0
  int signal = 0;  // the signal that killed it
  std::chrono::nanoseconds time{};
};

/// Runs a command to its end. Meanwhile forwards signals sent to this process, except those that the terminal already
/// sent to both; stops when the child stops. Errors: it could not be started.
Result<Ending> run_command(const Command& command);

/// Ends this process the way the child ended, so that our parent sees its exit code or signal.
[[noreturn]] void end_as(const Ending& ending);

}  // namespace memreel::record
