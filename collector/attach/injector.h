// SPDX-License-Identifier: Apache-2.0
// Loads the agent into a running process without its cooperation (ptrace(2); Linux on x86-64 and 64-bit Arm, glibc).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>

#include "formats/model/result.h"

namespace memreel::attach {

// Why the agent can't be loaded into a process, and the remedy.

/// As used in errors: "process 4711".
std::string process_name(pid_t process);

/// Errors: the process does not exist, has ended, or is this one. Applies to every attach method.
Result<void> check_alive(pid_t process);

/// Errors: the agent can't be loaded into it from outside, with the reason and a remedy.
Result<void> check_enterable(pid_t process);

/// Yama's level (Documentation/admin-guide/LSM/Yama.rst); -1 if Yama is not in use.
int yama_level();

/// Explains an errno from tracing `process` at this Yama level, with a remedy.
Error explain_refused_trace(pid_t process, int reason, int level = yama_level());

// Python 3.14 and newer accept an external request to run a script at a safe point (sys.remote_exec, PEP 768): no
// thread is stopped, and Python is aware of everything that happens.

/// Makes the interpreter in `process` load `library` and serve requests. False if there is no interpreter, it is too
/// old, or PYTHON_DISABLE_REMOTE_DEBUG forbids it; if there is no interpreter of the same version to send the request
/// with; or if nothing happened within `limit`: a program that sleeps or stays in native code that long never gets to
/// the script. On false, nothing has changed: the request is withdrawn.
bool enter_through_python(pid_t process, const std::filesystem::path& library, std::chrono::milliseconds limit);

struct Injected {
  std::chrono::nanoseconds pause{};  // how long one of the program's threads was borrowed
};

/// Makes the process load `library` and serve requests on its control socket; returns once it does. Stops only one
/// thread, and then resumes it where it was, including in a system call. On failure, or after `limit`, the program is
/// unchanged, except that a load in progress is not cancelled.
Result<Injected> inject(pid_t process, const std::filesystem::path& library, std::chrono::milliseconds limit);

}  // namespace memreel::attach
