// Loads the agent into a running process without its cooperation (ptrace(2); Linux on x86-64, glibc).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>

#include "formats/model/result.h"

namespace memreel::attach {

struct Injected {
  std::chrono::nanoseconds pause{};  // how long one of the program's threads was borrowed
};

/// Makes the process load `library` and serve requests on its control socket; returns once it does. Stops only one
/// thread, and then resumes it where it was, including in a system call. On failure, or after `limit`, the program is
/// unchanged, except that a load in progress is not cancelled.
Result<Injected> inject(pid_t process, const std::filesystem::path& library, std::chrono::milliseconds limit);

}  // namespace memreel::attach
