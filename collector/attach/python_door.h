// Python 3.14 and later lets itself be asked, from outside, to run a script at a point where that is safe
// (sys.remote_exec, PEP 768): no thread is stopped, and nothing is done that Python does not know of.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>

namespace memreel::attach {

/// Asks the interpreter in `process` to load `library` and to wait for questions. False when it is none, or too old, or
/// was told not to (PYTHON_DISABLE_REMOTE_DEBUG), when there is no interpreter of its version to ask with, or nothing
/// came of it within `limit`: a program that sleeps or is deep in native code for that long does not get to it. A false
/// answer changes nothing: what was asked is asked no more.
bool enter_through_python(pid_t process, const std::filesystem::path& library, std::chrono::milliseconds limit);

}  // namespace memreel::attach
