// Python 3.14 and newer accept an external request to run a script at a safe point (sys.remote_exec, PEP 768): no
// thread is stopped, and Python is aware of everything that happens.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>

namespace memreel::attach {

/// Makes the interpreter in `process` load `library` and serve requests. False if there is no interpreter, it is too
/// old, or PYTHON_DISABLE_REMOTE_DEBUG forbids it; if there is no interpreter of the same version to send the request
/// with; or if nothing happened within `limit`: a program that sleeps or stays in native code that long never gets to
/// the script. On false, nothing has changed: the request is withdrawn.
bool enter_through_python(pid_t process, const std::filesystem::path& library, std::chrono::milliseconds limit);

}  // namespace memreel::attach
