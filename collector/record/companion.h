// Programs of memreel's own that run beside the one that started them.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"

namespace memreel::record {

/// A program of this installation: in the same directory as the one that runs.
std::filesystem::path sibling(std::string_view program);

/// The standard streams of a companion; -1: nothing can be read from it or written to it.
struct Streams {
  int input = -1, output = -1, errors = -1;
};

/// Starts a sibling, with no signal blocked and in a process group of its own: what the terminal sends is for us. It
/// inherits no file but `streams`. Whoever starts it has to wait for its end. Errors: it could not be started.
Result<pid_t> start_companion(std::string_view program, std::vector<std::string> arguments, const Streams& streams);

}  // namespace memreel::record
