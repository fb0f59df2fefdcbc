// Puts the library into a process that runs, without its help (ptrace(2); Linux on x86-64, glibc).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>

#include "formats/model/result.h"

namespace memreel::attach {

struct Injected {
  std::chrono::nanoseconds pause{};  // for how long one thread of the program did something else than it wanted
};

/// Has the process load `library` and wait for questions at its control socket; returns when it does. No thread but one
/// is stopped, and that one goes on where it was, in the call in which it was. When it fails, or takes longer than
/// `limit`, the program is as it was before; except that a load that is under way is not called back.
Result<Injected> inject(pid_t process, const std::filesystem::path& library, std::chrono::milliseconds limit);

}  // namespace memreel::attach
