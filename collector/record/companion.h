// memreel's own helper programs, which run alongside the one that started them.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"

namespace memreel::record {

/// The path of a program of this installation: in the directory of the running one.
std::filesystem::path sibling(std::string_view program);

/// A companion's standard streams; -1: closed.
struct Streams {
  int input = -1, output = -1, errors = -1;
};

/// Starts a sibling with no signals blocked and in its own process group, since the terminal's signals are meant for
/// us. It inherits no files except `streams`. The caller must wait for its end. Errors: it could not be started.
Result<pid_t> start_companion(std::string_view program, std::vector<std::string> arguments, const Streams& streams);

}  // namespace memreel::record
