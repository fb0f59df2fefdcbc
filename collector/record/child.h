// A program run on behalf of somebody: it gets the signals, and its end is our end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
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
  int signal = 0;  // that killed it
  std::chrono::nanoseconds time{};
};

/// Runs a command to its end. Meanwhile signals sent to this process are passed on to it, but for those that the
/// terminal sent to both already; when it stops, we stop. Errors: it could not be started.
Result<Ending> run_command(const Command& command);

/// Ends this process as the child ended, so that whoever waits for us sees its exit code, or its signal.
[[noreturn]] void end_as(const Ending& ending);

}  // namespace memreel::record
